// The Vulkan backend: all kernels of a problem on one device.
#pragma once

#include "../engine/engine.hpp"

#include <memory>

namespace topograd::runtime::vulkan {

/// Opens the device that `options` name and puts the model's columns there.
///
/// Throws Error{NoLoader, NoDriver, NoDevice} if there is none, Error{Unsupported} if the device
/// lacks what the precision needs (float64 for f64) or a buffer would exceed its ranges.
std::unique_ptr<Engine> make_vulkan_engine(const Model& model, const EngineOptions& options);

/// Runs programs over rows of numbers on the device that `options` name; throws as
/// make_vulkan_engine() does.
std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options);

}  // namespace topograd::runtime::vulkan
