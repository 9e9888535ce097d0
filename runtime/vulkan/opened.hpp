// Internal: looking for a device without opening it.
#pragma once

#include <memory>

namespace topograd::runtime::vulkan {

class Device;
struct DeviceOptions;

/// The device that is open for equal options, or null.
std::shared_ptr<Device> find_open(const DeviceOptions& options);

}  // namespace topograd::runtime::vulkan
