// The caller's own memory as a device buffer, with VK_EXT_external_memory_host.
#pragma once

#include "device.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace topograd::runtime::vulkan {

/// Alignment in bytes of imported memory and its size; 0: no import. Masked with mapped_memory.
std::uint64_t host_import_alignment(const Device& device);

/// Makes a buffer of this memory without copies: mapped() is its first byte. The memory must
/// outlive the buffer and all queued work that uses it; the host may touch it only while no queued
/// work does.
///
/// Returns nothing if the device does not import memory, or the memory is not whole pages.
std::optional<Buffer> import_host_memory(Device& device, std::span<std::byte> memory,
                                         std::string_view name);

}  // namespace topograd::runtime::vulkan
