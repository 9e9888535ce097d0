// Vulkan devices as backends, and their memory as the data of problems.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../../runtime/device/device.hpp"
#include "../backend/backend.hpp"

namespace topograd::ops {

/// OpBackend::numbers() of a Vulkan device.
std::shared_ptr<const ir::ResidentData> numbers_of(std::shared_ptr<OpBackend> backend,
                                                   std::shared_ptr<Memory> memory, Type type,
                                                   std::uint64_t count);

/// Opens a device, or returns the open backend with equal options.
///
/// Throws Error{NoLoader, NoDriver, NoDevice, Unsupported, InvalidArgument}.
Device open_vulkan(const runtime::vulkan::DeviceOptions& options = {});

/// All Vulkan devices, with the reason if one cannot be opened.
std::vector<runtime::vulkan::DeviceInfo> vulkan_devices();

/// The runtime's device of a backend; null for other backends.
std::shared_ptr<runtime::vulkan::Device> vulkan_device(const OpBackend& backend);

}  // namespace topograd::ops
