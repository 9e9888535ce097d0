// Generated kernels on rows of numbers on a device.
#pragma once

#include "../engine.hpp"
#include "../rows.hpp"

namespace topograd::runtime::vulkan {

class Device;

/// Opens the device that `options` name; throws as make_vulkan_engine() does.
std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options);
/// The same on a device that is open.
std::unique_ptr<RowRunner> make_row_runner(const std::shared_ptr<Device>& device,
                                           Precision precision);

}  // namespace topograd::runtime::vulkan
