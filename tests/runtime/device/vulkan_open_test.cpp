// Finding and opening devices: options, masks, sharing, and errors without a device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "../../../ir/error.hpp"
#include "../../../runtime/device/check/doctor.hpp"

#include "../../support/environment.hpp"
#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

void expect_error(ErrorCode code, const std::vector<std::string>& parts, auto&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown, expected " << topograd::name(code);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(VulkanOpen, AMissingLoaderIsNamedWithItsPackage) {
  const std::vector<std::string> parts = {
      "vulkan: cannot open the Vulkan loader: tried /nowhere/libvulkan.so.9 (",
      "install the package libvulkan1", "TOPOGRAD_VULKAN_LOADER"};
  expect_error(ErrorCode::NoLoader, parts, [] { devices({.loader = "/nowhere/libvulkan.so.9"}); });
  expect_error(ErrorCode::NoLoader, parts,
               [] { runtime::vulkan::open({.loader = "/nowhere/libvulkan.so.9"}); });
  const ScopedEnvironment loader("TOPOGRAD_VULKAN_LOADER", "/nowhere/libvulkan.so.9");
  expect_error(ErrorCode::NoLoader, parts, [] { runtime::vulkan::open(); });
}

TEST(VulkanOpen, ALibraryThatIsNoLoaderIsRefused) {
  expect_error(ErrorCode::NoLoader, {"tried libm.so.6 (it has no vkGetInstanceProcAddr)"},
               [] { devices({.loader = "libm.so.6"}); });
}

TEST_F(VulkanTest, MissingDriversAreNamedWithTheVariable) {
  device_ = nullptr;
  release_devices();
  constexpr const char* kVariables[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};
  for (const int k : {0, 1}) {
    // The loader reads only the first of them if both are set.
    const char* const variable = kVariables[k];
    const ScopedEnvironment other(kVariables[1 - k], std::nullopt);
    const ScopedEnvironment drivers(variable, "/nowhere/icd.json");
    expect_error(ErrorCode::NoDriver,
                 {"vulkan: the loader libvulkan.so.1 finds no Vulkan driver",
                  std::string(variable) + "=/nowhere/icd.json", "mesa-vulkan-drivers"},
                 [] { devices(); });
  }
  EXPECT_FALSE(devices().empty());
}

TEST_F(VulkanTest, ADeviceIsOneByWhateverName) {
  if (!device_) return;
  DeviceOptions options = device_->options();
  for (const std::string& name : {std::to_string(device_->info().index), device_->info().name}) {
    options.device = name;
    EXPECT_EQ(runtime::vulkan::open(options)->core(), device_->core()) << name;
  }
  options.limits.max_allocation_size = 1 << 20;
  EXPECT_NE(runtime::vulkan::open(options)->core(), device_->core());
}

TEST(VulkanOpen, BadOptionsAreRefused) {
  expect_error(ErrorCode::InvalidArgument,
               {"mask: unknown feature \"flaot64\", expected float64, float32_atomics,"},
               [] { devices({.mask = "subgroups,flaot64"}); });
  expect_error(ErrorCode::InvalidArgument, {"timeout_seconds must be positive, got 0"},
               [] { devices({.timeout_seconds = 0}); });
  const ScopedEnvironment mask("TOPOGRAD_MASK", "nonsense");
  expect_error(ErrorCode::InvalidArgument, {"unknown feature \"nonsense\""}, [] { devices(); });
}

TEST_F(VulkanTest, DevicesDescribeThemselves) {
  const auto list = devices();
  ASSERT_FALSE(list.empty());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const DeviceInfo& info = list[i];
    EXPECT_EQ(info.index, i);
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.vendor.empty());
    EXPECT_TRUE(info.api_version.starts_with("1.")) << info.api_version;
    ASSERT_FALSE(info.heaps.empty());
    EXPECT_GT(info.heaps[0].size, 0u);
    if (!info.unusable.empty()) continue;
    // Guaranteed by Vulkan 1.2.
    EXPECT_FALSE(info.driver.empty());
    EXPECT_GE(info.limits.max_storage_buffer_range, 1u << 27);
    EXPECT_GE(info.limits.max_workgroup_invocations, 128u);
    EXPECT_GE(info.limits.max_workgroups_x, 65535u);
    EXPECT_GE(info.limits.shared_memory_bytes, 16384u);
    EXPECT_GE(info.limits.max_push_constant_bytes, 128u);
    EXPECT_GE(info.limits.max_allocation_size, 1u << 30);
  }
}

TEST_F(VulkanTest, EqualOptionsShareADevice) {
  EXPECT_EQ(runtime::vulkan::open(), device_);
  EXPECT_EQ(runtime::vulkan::open({.device = std::to_string(device_->info().index)})->info().name,
            device_->info().name);
  const ScopedEnvironment none("TOPOGRAD_MASK", "");
  const auto masked = runtime::vulkan::open({.mask = "subgroups, float64"});
  EXPECT_NE(masked, runtime::vulkan::open());
  EXPECT_EQ(runtime::vulkan::open({.mask = "float64,,subgroups"}), masked);
  const ScopedEnvironment mask("TOPOGRAD_MASK", "subgroups");
  EXPECT_EQ(runtime::vulkan::open({.mask = "float64"}), masked);
}

TEST_F(VulkanTest, ThreadsThatOpenGetOneDevice) {
  device_ = nullptr;
  release_devices();
  std::shared_ptr<Device> found[4];
  std::vector<std::thread> threads;
  for (auto& slot : found) threads.emplace_back([&slot] { slot = require_device(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& device : found) EXPECT_EQ(device, found[0]);
}

TEST_F(VulkanTest, MaskedFeaturesAreNotEnabled) {
  std::string all;
  for (const std::string& name : mask_names()) all += name + ",";
  const auto device = runtime::vulkan::open({.mask = all, .float64 = codegen::Float64::native});
  const Features& features = device->features();
  EXPECT_FALSE(features.float64 || features.int64_atomics || features.atomic_float32_add ||
               features.atomic_float64_add || features.subgroup_basic ||
               features.subgroup_arithmetic || features.large_workgroups || features.shared_32k ||
               features.large_buffer_range || features.timestamps || features.mapped_memory);
  EXPECT_EQ(device->limits().subgroup_size, 1u);
  EXPECT_LE(device->limits().max_workgroup_invocations, 256u);
  EXPECT_EQ(device->limits().shared_memory_bytes, 16384u);
  EXPECT_EQ(device->limits().max_storage_buffer_range, 1u << 27);
  // It still computes, and timestamps have no effect.
  const Kernel square = map_kernel(*device, "uint", "a[i] * a[i]");
  const Buffer buffer = filled(*device, counting<std::uint32_t>(70));
  CommandList list = device->command_list();
  list.write_timestamp("none");
  record_map(list, square, buffer, 70);
  device->submit(list).wait();
  EXPECT_TRUE(list.timestamps().empty());
  EXPECT_EQ(contents<std::uint32_t>(*device, buffer)[69], 69u * 69u);
  // The layer reports the use of a masked feature, because it was not enabled.
  if (!validation_is_on() || !device_->features().float64) return;
  const CapturedValidation captured;
  map_kernel(*device, "double", "a[i] + 1.0lf");
  EXPECT_FALSE(captured.messages().empty());
}

TEST_F(VulkanTest, TheDoctorFindsAHealthyMachine) {
  const auto square = compile(map_shader("float", "a[i] * a[i]"));
  const DoctorReport report = doctor({}, square);
  EXPECT_TRUE(report.ok());
  std::vector<std::string> names;
  for (const DoctorCheck& check : report.checks) {
    names.push_back(check.name);
    EXPECT_TRUE(check.ok || !check.needed) << check.name << ": " << check.detail;
    EXPECT_EQ(check.advice.empty(), check.ok) << check.name;
    EXPECT_FALSE(check.detail.empty()) << check.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"loader", "instance", "validation layer", "devices",
                                             "device", "float64", "float32 atomics",
                                             "float64 atomics", "int64 atomics", "subgroups",
                                             "timestamps", "disk cache", "shader", "functions"}));
  const auto wrong = compile(map_shader("float", "a[i] + a[i]"));
  const DoctorReport sick = doctor({}, wrong);
  EXPECT_FALSE(sick.ok());
  EXPECT_NE(sick.checks.back().detail.find("the square of -500"), std::string::npos)
      << sick.checks.back().detail;
}

TEST(VulkanOpen, TheDoctorAdvisesOnAMissingLoader) {
  const DoctorReport report = doctor({.loader = "/nowhere/libvulkan.so.9"}, {});
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.checks.size(), 1u);
  EXPECT_EQ(report.checks[0].name, "loader");
  EXPECT_EQ(report.checks[0].advice, "install the package libvulkan1");
}

TEST_F(VulkanTest, TheDoctorAdvisesOnMissingDrivers) {
  device_ = nullptr;
  release_devices();
  const ScopedEnvironment drivers("VK_DRIVER_FILES", "/nowhere/icd.json");
  const DoctorReport report = doctor({}, {});
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.checks.size(), 3u);
  EXPECT_TRUE(report.checks[0].ok);
  EXPECT_FALSE(report.checks[1].ok);
  EXPECT_NE(report.checks[1].advice.find("mesa-vulkan-drivers"), std::string::npos);
}

}  // namespace
}  // namespace topograd::test
