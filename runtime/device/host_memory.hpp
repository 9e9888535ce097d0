// The caller's own memory as a device buffer, where the device has VK_EXT_external_memory_host.
#pragma once

#include "device.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace topograd::runtime::vulkan {

/// Bytes that imported memory begins and ends at multiples of; 0: the device imports none. Masked
/// with mapped_memory.
std::uint64_t host_import_alignment(const Device& device);

/// A buffer that is that memory: mapped() is its first byte, and no byte is ever copied. The memory
/// outlives the buffer and all that was queued with it; the host touches it only while nothing
/// queued does.
///
/// Nothing where the device imports no such memory, or the memory is not whole pages.
std::optional<Buffer> import_host_memory(Device& device, std::span<std::byte> memory,
                                         std::string_view name);

}  // namespace topograd::runtime::vulkan
