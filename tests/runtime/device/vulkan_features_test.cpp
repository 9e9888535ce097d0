// Masks, overrides, size classes and the choice of a device, without a device.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/opened/memory_pools.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

Features every_feature() {
  Features features;
  features.float64 = features.int64 = features.int64_atomics = true;
  features.atomic_float32_add = features.atomic_float64_add = true;
  features.subgroup_basic = features.subgroup_arithmetic = true;
  features.large_workgroups = features.shared_32k = features.large_buffer_range = true;
  features.mapped_memory = features.timestamps = true;
  return features;
}

Limits large_limits() {
  Limits limits;
  limits.max_storage_buffer_range = std::uint64_t{4} << 30;
  limits.max_allocation_size = std::uint64_t{4} << 30;
  limits.max_workgroup_size_x = limits.max_workgroup_invocations = 1024;
  limits.max_workgroups_x = 65535;
  limits.shared_memory_bytes = 48 * 1024;
  limits.subgroup_size = 32;
  limits.max_storage_buffers_per_stage = 64;
  return limits;
}

// The features that a mask hides, in the order of this list.
std::string hidden(const std::string& mask) {
  Features f = every_feature();
  Limits l = large_limits();
  apply_mask(parse_mask(mask), f, l);
  const std::pair<const char*, bool> there[] = {
      {"float64", f.float64},
      {"int64", f.int64},
      {"int64_atomics", f.int64_atomics},
      {"add32", f.atomic_float32_add},
      {"add64", f.atomic_float64_add},
      {"subgroup", f.subgroup_basic && f.subgroup_arithmetic && l.subgroup_size == 32},
      {"workgroups", f.large_workgroups && l.max_workgroup_invocations == 1024},
      {"shared", f.shared_32k && l.shared_memory_bytes == 48 * 1024},
      {"range", f.large_buffer_range && l.max_storage_buffer_range == std::uint64_t{4} << 30},
      {"mapped", f.mapped_memory},
      {"timestamps", f.timestamps}};
  std::string text;
  for (const auto& [name, present] : there) {
    if (!present) text += std::string(text.empty() ? "" : " ") + name;
  }
  return text;
}

TEST(VulkanFeatures, EachMaskHidesItsFeatures) {
  const struct {
    const char* mask;
    const char* hides;
  } rows[] = {{"", ""},
              {"float64", "float64 add64"},
              {"float32_atomics", "add32"},
              {"float64_atomics", "add64"},
              {"int64_atomics", "int64_atomics"},
              {"subgroups", "subgroup"},
              {"large_workgroups", "workgroups"},
              {"shared_32k", "shared"},
              {"large_buffers", "range"},
              {"timestamps", "timestamps"},
              {"mapped_memory", "mapped"},
              {" subgroups ,, timestamps,", "subgroup timestamps"}};
  for (const auto& row : rows) EXPECT_EQ(hidden(row.mask), row.hides) << row.mask;
}

TEST(VulkanFeatures, MaskTextIsCanonical) {
  EXPECT_EQ(mask_text(parse_mask("timestamps,float64,timestamps")), "float64,timestamps");
  for (const std::string& name : mask_names()) EXPECT_EQ(mask_text(parse_mask(name)), name);
}

TEST(VulkanFeatures, PresetsAreMasks) {
  const struct {
    const char* mask;
    const char* hides;
  } rows[] = {
      {"intel_no_f64", "float64 int64_atomics add64"},
      {"amd_no_subgroups", "add32 add64 subgroup"},
      {"intel_no_f64, subgroups", "float64 int64_atomics add64 subgroup"},
      {"minimal",
       "float64 int64_atomics add32 add64 subgroup workgroups shared range mapped timestamps"}};
  for (const auto& row : rows) EXPECT_EQ(hidden(row.mask), row.hides) << row.mask;
  std::string names;
  for (const MaskPreset& preset : mask_presets())
    names += std::string(names.empty() ? "" : ",") + preset.name;
  EXPECT_EQ(names, TOPOGRAD_MASK_PRESETS);  // those of the test runs
}

TEST(VulkanFeatures, OverridesOnlyLower) {
  Features features = every_feature();
  Limits limits = large_limits();
  apply_overrides({.max_workgroup_invocations = 4096, .shared_memory_bytes = 20000}, features,
                  limits);
  EXPECT_EQ(limits.max_workgroup_invocations, 1024u);
  EXPECT_EQ(limits.shared_memory_bytes, 20000u);
  EXPECT_TRUE(features.large_workgroups);
  EXPECT_FALSE(features.shared_32k);
  apply_overrides({.max_storage_buffer_range = 4096, .max_workgroup_size_x = 256}, features,
                  limits);
  EXPECT_EQ(limits.max_storage_buffer_range, 4096u);
  EXPECT_FALSE(features.large_buffer_range);
  EXPECT_FALSE(features.large_workgroups);
}

TEST(VulkanFeatures, SizeClassesWasteLittle) {
  const struct {
    std::uint64_t size;
    std::uint64_t rounded;
  } rows[] = {
      {1, 256},     {256, 256},     {257, 512},         {4096, 4096},
      {4097, 4352}, {16385, 16896}, {1 << 20, 1 << 20}, {(1 << 20) + 1, (1 << 20) + (1 << 15)}};
  for (const auto& row : rows) EXPECT_EQ(size_class(row.size), row.rounded) << row.size;
  for (std::uint64_t size = 1; size < std::uint64_t{1} << 34; size += size / 3 + 1) {
    const std::uint64_t rounded = size_class(size);
    EXPECT_GE(rounded, size);
    EXPECT_EQ(rounded % 256, 0u);
    EXPECT_EQ(size_class(rounded), rounded) << size;
    const std::uint64_t waste = std::max<std::uint64_t>(size / 32, 255);
    EXPECT_LE(rounded - size, waste) << size;
  }
}

DeviceInfo device(std::uint32_t index, const char* name, DeviceType type, std::uint64_t bytes,
                  const char* unusable = "") {
  DeviceInfo info;
  info.index = index;
  info.name = name;
  info.type = type;
  info.heaps = {{bytes, bytes, true}};
  info.unusable = unusable;
  return info;
}

TEST(VulkanFeatures, ChoosesTheBestOrTheNamedDevice) {
  const std::vector<DeviceInfo> list = {
      device(0, "llvmpipe (LLVM 15)", DeviceType::Software, std::uint64_t{64} << 30),
      device(1, "Intel UHD", DeviceType::Integrated, std::uint64_t{16} << 30),
      device(2, "RTX 2000", DeviceType::Discrete, std::uint64_t{8} << 30),
      device(3, "RTX 4000", DeviceType::Discrete, std::uint64_t{20} << 30),
      device(4, "Old RTX", DeviceType::Discrete, std::uint64_t{99} << 30, "it has Vulkan 1.1")};
  const struct {
    const char* wanted;
    std::size_t index;
  } rows[] = {{"", 3}, {"0", 0}, {"llvm", 0}, {"INTEL", 1}, {"rtx 2", 2}, {"rtx", 3}, {"2", 2}};
  for (const auto& row : rows) {
    EXPECT_EQ(choose_device(list, {.device = row.wanted}), row.index) << row.wanted;
  }
  const std::vector<DeviceInfo> software = {list[0]};
  EXPECT_EQ(choose_device(software, {}), 0u);
}

TEST(VulkanFeatures, AbsentDevicesAreListed) {
  const std::vector<DeviceInfo> list = {
      device(0, "llvmpipe", DeviceType::Software, 1),
      device(1, "Old RTX", DeviceType::Discrete, 1, "it has Vulkan 1.1.70, not 1.2")};
  const struct {
    std::vector<DeviceInfo> list;
    const char* wanted;
    ErrorCode code;
    const char* message;
  } rows[] = {
      {list, "radeon", ErrorCode::NoDevice,
       "vulkan: no device \"radeon\" found; there is: 0 = \"llvmpipe\" (software), 1 = \"Old RTX\" "
       "(discrete; it has Vulkan 1.1.70, not 1.2)"},
      {list, "7", ErrorCode::NoDevice,
       "vulkan: no device \"7\" found; there is: 0 = \"llvmpipe\" (software), 1 = \"Old RTX\" "
       "(discrete; it has Vulkan 1.1.70, not 1.2)"},
      {list, "old", ErrorCode::Unsupported,
       "vulkan: device \"Old RTX\" cannot be used: it has Vulkan 1.1.70, not 1.2; there is: 0 = "
       "\"llvmpipe\" (software), 1 = \"Old RTX\" (discrete; it has Vulkan 1.1.70, not 1.2)"},
      {{list[1]},
       "",
       ErrorCode::NoDevice,
       "vulkan: device \"Old RTX\" cannot be used: it has Vulkan 1.1.70, not 1.2; there is: 1 = "
       "\"Old RTX\" (discrete; it has Vulkan 1.1.70, not 1.2)"},
      {{}, "", ErrorCode::NoDevice, "vulkan: no device found; there is: none"}};
  for (const auto& row : rows) {
    try {
      choose_device(row.list, {.device = row.wanted});
      ADD_FAILURE() << row.wanted << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << row.wanted;
      EXPECT_STREQ(error.what(), row.message);
    }
  }
}

}  // namespace
}  // namespace topograd::test
