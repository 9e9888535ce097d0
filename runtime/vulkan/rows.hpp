// Generated kernels on rows of numbers on a device.
#pragma once

#include <topograd/runtime/engine.hpp>
#include <topograd/runtime/rows.hpp>

namespace topograd::runtime::vulkan {

/// Opens the device that `options` name; throws as make_vulkan_engine() does.
std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options);

}  // namespace topograd::runtime::vulkan
