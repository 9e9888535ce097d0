// Vulkan devices as backends, for code that opens them with options of its own.
#pragma once

#include "../../runtime/device/device.hpp"
#include "../backend/backend.hpp"

#include <memory>
#include <vector>

namespace topograd::ops {

/// Opens a device, or gives the backend that is open for equal options.
///
/// Throws Error{NoLoader, NoDriver, NoDevice, Unsupported, InvalidArgument}.
Device open_vulkan(const runtime::vulkan::DeviceOptions& options = {});

/// What there is, each with whether it can be opened.
std::vector<runtime::vulkan::DeviceInfo> vulkan_devices();

/// As operations see it; `unified` is known once it is open.
DeviceFacts facts_of(const runtime::vulkan::DeviceInfo& info);

/// The runtime's device behind a backend; null behind others.
std::shared_ptr<runtime::vulkan::Device> vulkan_device(const Backend& backend);

}  // namespace topograd::ops
