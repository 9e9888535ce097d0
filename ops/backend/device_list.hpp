// Internal: the devices beside the CPU, listed without opening them.
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
  std::string problem;     ///< why it cannot be opened; empty if it can
  bool preferred = false;  ///< what an empty name stands for
  bool asked_for = false;  ///< TOPOGRAD_DEVICE names it
  std::function<Device()> open;
  /// The same device for an executor; opened when a task comes.
  std::function<std::unique_ptr<runtime::hybrid::DeviceBackend>()> for_executor;
};

/// Empty without a loader, a driver or a device, and in builds without Vulkan. Listed once.
const std::vector<ListedDevice>& listed_devices();
/// The same, listed again at each call.
std::vector<ListedDevice> devices_of_system();
/// Test hook: these are listed instead. Call it before anything else of ops.
void list_instead(std::vector<ListedDevice> devices);

/// Device::vulkan().
Device open_named(std::string_view which);

}  // namespace topograd::ops
