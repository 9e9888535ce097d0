// Internal: lists the devices other than the CPU without opening them.
#pragma once

#include "../../runtime/hybrid/backend.hpp"
#include "device.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops {

struct ListedDevice {
  DeviceFacts facts;
  bool preferred = false;  ///< the device for an empty name
  bool asked_for = false;  ///< TOPOGRAD_DEVICE names it
  std::function<Device()> open;
  /// The same device for an executor; opened with the first task.
  std::function<std::unique_ptr<runtime::hybrid::DeviceBackend>()> for_executor;
};

/// Empty without a loader, driver or device, and in builds without Vulkan. Listed only once.
const std::vector<ListedDevice>& listed_devices();
/// The same, listed at each call.
std::vector<ListedDevice> devices_of_system();
/// Test hook: replaces the list. Call it before any other function of ops.
void list_instead(std::vector<ListedDevice> devices);

/// Implements Device::vulkan().
Device open_named(std::string_view which);

}  // namespace topograd::ops
