// Vulkan devices as backends, and their memory as the data of problems.
#pragma once

#include <memory>

#include "../../runtime/device/device.hpp"
#include "../backend/backend.hpp"

namespace topograd::ops {

/// Opens a device, or returns the open backend with equal options.
///
/// Throws Error{NoLoader, NoDriver, NoDevice, Unsupported, InvalidArgument}.
Device open_vulkan(const runtime::vulkan::DeviceOptions& options = {});

/// The runtime's device of a backend; null for other backends.
std::shared_ptr<runtime::vulkan::Device> vulkan_device(const OpBackend& backend);

}  // namespace topograd::ops
