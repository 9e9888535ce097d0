// SPIR-V modules as blobs of whole words, and their modes.
#include "module_cache.hpp"

#include "../../cache/disk_cache.hpp"
#include "../driver/features.hpp"

#include <cstring>

namespace topograd::runtime::vulkan {
namespace {

constexpr const char* kKind = "spirv";

}  // namespace

codegen::FloatControls float_controls(const Features& f) {
  const bool f32 = f.signed_zero_inf_nan_preserve_f32 && f.denorm_preserve_f32;
  const bool f64 = f.signed_zero_inf_nan_preserve_f64 && f.denorm_preserve_f64;
  codegen::FloatControls controls;
  controls.f32 = {f32, f32};
  controls.f64 = {f64, f64};
  return controls;
}

std::optional<std::vector<std::uint32_t>> load_module(DiskCache& disk, Hash128 key) {
  const auto blob = disk.load(kKind, key);
  if (!blob || blob->empty() || blob->size() % 4 != 0) return std::nullopt;
  std::vector<std::uint32_t> words(blob->size() / 4);
  std::memcpy(words.data(), blob->data(), blob->size());
  return words;
}

void store_module(DiskCache& disk, Hash128 key, std::span<const std::uint32_t> words) {
  disk.store(kKind, key, std::as_bytes(words));
}

}  // namespace topograd::runtime::vulkan
