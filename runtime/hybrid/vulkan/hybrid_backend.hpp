// Vulkan devices for the hybrid executor.
#pragma once

#include "../../device/device.hpp"
#include "../executor.hpp"

#include <memory>

namespace topograd::runtime::vulkan {

/// Makes a device that runs programs (hybrid::DeviceProgram).
///
/// Throws the errors of open().
std::unique_ptr<hybrid::DeviceBackend> make_hybrid_backend(const DeviceOptions& options = {});

/// The same, but opened by its first task.
///
///   info  of the device that the options choose
std::unique_ptr<hybrid::DeviceBackend> make_hybrid_backend(const DeviceOptions& options,
                                                           const DeviceInfo& info);

/// Adds each device that is found, unless a device of its name exists. One that cannot be opened is
/// added as not available and counted as a fallback. Without a loader, a driver or a device nothing
/// is added; a failing driver is added as a device "vulkan" that is not available.
///
///   options  choose the device; all devices if they name none
///
/// Returns how many can be used. Throws Error{InvalidArgument} for bad options.
std::size_t add_vulkan_devices(hybrid::Executor& executor, const DeviceOptions& options = {});

}  // namespace topograd::runtime::vulkan
