// Internal: SPIR-V modules: how a device keeps their numbers, and the cache on disk.
#pragma once

#include "../../../codegen/spirv/float_controls.hpp"
#include "../../cache/content_hash.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime {
class DiskCache;
}

namespace topograd::runtime::vulkan {

struct Features;

/// The modes of a device for a width that can keep both denormals, and signed zeros, infinities and
/// NaN; none for another width.
codegen::FloatControls float_controls(const Features& features);

/// Words stored under a key, or nothing. Errors on disk never throw.
std::optional<std::vector<std::uint32_t>> load_module(DiskCache& disk, Hash128 key);

/// Stores words; the cache counts failures.
void store_module(DiskCache& disk, Hash128 key, std::span<const std::uint32_t> words);

}  // namespace topograd::runtime::vulkan
