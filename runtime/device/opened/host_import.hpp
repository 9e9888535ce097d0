// Internal: support of a device for importing host memory.
#pragma once

#include "../driver/driver.hpp"
#include "../driver/features.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// minImportedHostPointerAlignment; 0 without VK_EXT_external_memory_host, or if it is masked.
std::uint64_t import_alignment(const vk::raii::PhysicalDevice& physical, const Features& features);

}  // namespace topograd::runtime::vulkan
