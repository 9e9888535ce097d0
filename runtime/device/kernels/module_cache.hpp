// Internal: SPIR-V modules in the cache on disk.
#pragma once

#include "../../cache/content_hash.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime {
class DiskCache;
}

namespace topograd::runtime::vulkan {

/// Words that were stored under a key; nothing if there are none. Never throws for what is on disk.
std::optional<std::vector<std::uint32_t>> load_module(DiskCache& disk, Hash128 key);

/// Failures are counted by the cache.
void store_module(DiskCache& disk, Hash128 key, std::span<const std::uint32_t> words);

}  // namespace topograd::runtime::vulkan
