// The table of masks, and the rules by which masks and overrides lower a device's limits.
#include "features.hpp"

#include <algorithm>

#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {
namespace {

// Guaranteed by Vulkan, and therefore the limits of a masked device.
constexpr std::uint32_t kSmallWorkgroup = 256;
constexpr std::uint32_t kSharedBytes = 32 * 1024;
constexpr std::uint32_t kSmallSharedBytes = 16 * 1024;
constexpr std::uint64_t kSmallBufferRange = std::uint64_t{128} << 20;

template <class T>
void lower(T& limit, T bound) {
  if (bound != 0) limit = std::min(limit, bound);
}

// Sets features that only mean that a limit is large.
void derive(Features& features, const Limits& limits) {
  features.large_workgroups = limits.max_workgroup_invocations > kSmallWorkgroup &&
                              limits.max_workgroup_size_x > kSmallWorkgroup;
  features.shared_32k = limits.shared_memory_bytes >= kSharedBytes;
  features.large_buffer_range = limits.max_storage_buffer_range > kSmallBufferRange;
}

struct MaskRow {
  const char* name;
  void (*hide)(Features&, Limits&);
};

constexpr MaskRow kMasks[] = {
    {"float64",
     [](Features& f, Limits&) {
       f.float64 = f.atomic_float64_add = false;
       f.signed_zero_inf_nan_preserve_f64 = f.denorm_preserve_f64 = false;
     }},
    {"float32_atomics", [](Features& f, Limits&) { f.atomic_float32_add = false; }},
    {"float64_atomics", [](Features& f, Limits&) { f.atomic_float64_add = false; }},
    {"int64_atomics", [](Features& f, Limits&) { f.int64_atomics = false; }},
    {"subgroups",
     [](Features& f, Limits& l) {
       f.subgroup_basic = f.subgroup_arithmetic = false;
       l.subgroup_size = 1;
     }},
    {"large_workgroups",
     [](Features&, Limits& l) {
       lower(l.max_workgroup_invocations, kSmallWorkgroup);
       lower(l.max_workgroup_size_x, kSmallWorkgroup);
     }},
    {"shared_32k", [](Features&, Limits& l) { lower(l.shared_memory_bytes, kSmallSharedBytes); }},
    {"large_buffers",
     [](Features&, Limits& l) { lower(l.max_storage_buffer_range, kSmallBufferRange); }},
    {"timestamps", [](Features& f, Limits&) { f.timestamps = false; }},
    {"mapped_memory", [](Features& f, Limits&) { f.mapped_memory = false; }},
};
constexpr Mask kEverything = (Mask{1} << std::size(kMasks)) - 1;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Mask mask_of(std::string_view word) {
  const auto& names = mask_names();
  const auto found = std::ranges::find(names, word);
  if (found != names.end()) return Mask{1} << (found - names.begin());
  std::vector<std::string> known = names;
  for (const MaskPreset& preset : mask_presets()) {
    const std::string_view features = preset.features;
    if (word == preset.name) return features.empty() ? kEverything : parse_mask(features);
    known.emplace_back(preset.name);
  }
  throw Error(ErrorCode::InvalidArgument,
              "mask: unknown feature \"" + std::string(word) + "\", expected " + joined(known));
}

}  // namespace

const std::vector<std::string>& mask_names() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> list;
    for (const MaskRow& row : kMasks) list.emplace_back(row.name);
    return list;
  }());
  return names;
}

const std::vector<MaskPreset>& mask_presets() {
  // Intel's Xe-LP has neither doubles nor 64-bit atomics, AMD's RDNA 2 no atomic sums of floats.
  static const auto& presets = *new std::vector<MaskPreset>{
      {"intel_no_f64", "float64,float64_atomics,int64_atomics"},
      {"amd_no_subgroups", "subgroups,float32_atomics,float64_atomics"},
      {"minimal", ""}};
  return presets;
}

Mask parse_mask(std::string_view text) {
  Mask mask = 0;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string_view word = trimmed(text.substr(0, comma));
    if (!word.empty()) mask |= mask_of(word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return mask;
}

std::string mask_text(Mask mask) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kMasks); ++i) {
    if ((mask >> i & 1) != 0) text += (text.empty() ? "" : ",") + std::string(kMasks[i].name);
  }
  return text;
}

void apply_mask(Mask mask, Features& features, Limits& limits) {
  for (std::size_t i = 0; i < std::size(kMasks); ++i) {
    if ((mask >> i & 1) != 0) kMasks[i].hide(features, limits);
  }
  derive(features, limits);
}

void apply_overrides(const LimitOverrides& overrides, Features& features, Limits& limits) {
  lower(limits.max_storage_buffer_range, overrides.max_storage_buffer_range);
  lower(limits.max_allocation_size, overrides.max_allocation_size);
  lower(limits.max_workgroup_size_x, overrides.max_workgroup_size_x);
  lower(limits.max_workgroup_invocations, overrides.max_workgroup_invocations);
  lower(limits.max_workgroups_x, overrides.max_workgroups_x);
  lower(limits.shared_memory_bytes, overrides.shared_memory_bytes);
  lower(limits.max_storage_buffers_per_stage, overrides.max_storage_buffers_per_stage);
  derive(features, limits);
}

}  // namespace topograd::runtime::vulkan
