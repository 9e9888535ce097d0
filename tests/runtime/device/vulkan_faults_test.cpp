// Timeouts, lost devices, out of memory, and the failure of every single driver call.
#include <gtest/gtest.h>

#include <vulkan/vulkan_core.h>
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "../../../ir/error.hpp"

#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

class VulkanFaults : public VulkanTest {};

ErrorCode code_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  return ErrorCode::Stopped;  // nothing was thrown
}

// A device that no other test uses: losing it must not disturb them.
std::shared_ptr<Device> own_device(double timeout) {
  auto device = require_device({.mask = "mapped_memory", .timeout_seconds = timeout});
  release_devices();
  return device;
}

TEST_F(VulkanFaults, AWaitIsBounded) {
  constexpr std::uint32_t kCount = 64 * 32;
  const Kernel slow =
      map_kernel(*device_, "uint", "a[i]; for (uint k = 0; k < 60000u; ++k) a[i] = a[i] * 3u + k");
  const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(kCount, 1));
  CommandList list = device_->command_list("slow");
  record_map(list, slow, buffer, kCount);
  const Submission submission = device_->submit(list);
  std::string text;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(code_of([&] { submission.wait(0.001); }, &text), ErrorCode::Timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_NE(text.find("finished nothing for 0.001"), text.npos) << text;
  submission.wait();
  EXPECT_TRUE(submission.done());
}

// The software device compiles when a kernel first runs: a list of many kernels must not time out.
TEST_F(VulkanFaults, AWaitGivesTheDriverTimeToCompile) {
  const auto device = own_device(0.25);
  const auto seed = std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'000'000;
  const Buffer buffer = filled(*device, std::vector<std::uint32_t>(64, 1));
  CommandList list = device->command_list("many");
  for (int k = 0; k < 50; ++k) {  // 12 ms each, and no driver has cached them
    const std::string constant = std::to_string(seed + k) + "u";
    record_map(list, map_kernel(*device, "uint", "a[i] * 3u + " + constant), buffer, 64);
    list.barrier();
  }
  device->submit(list).wait();
  release_devices();
}

// A long kernel takes it more than two seconds, the allowance for the first run of any kernel.
TEST_F(VulkanFaults, AWaitGivesTheDriverMoreTimeForLongKernels) {
  const auto device = own_device(0.25);
  const auto seed = std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'000'000;
  std::string body = "a[i]; uint x = a[i] + " + std::to_string(seed) + "u";
  for (int k = 0; k < 12'000; ++k)
    body += "; x = x * 3u + " + std::to_string(k) + "u; x ^= x >> 5u";
  const Buffer buffer = filled(*device, std::vector<std::uint32_t>(64, 1));
  CommandList list = device->command_list("long");
  record_map(list, map_kernel(*device, "uint", body + "; a[i] = x"), buffer, 64);
  device->submit(list).wait();
  release_devices();
}

TEST_F(VulkanFaults, ALossIsLatched) {
  const auto device = own_device(51);
  const Kernel kernel = map_kernel(*device, "uint", "a[i] + 1u");
  const Buffer buffer = device->buffer(400);
  CommandList list = device->command_list("lost");
  record_map(list, kernel, buffer, 100);
  device->inject_fault("vkQueueSubmit", 0, VK_ERROR_DEVICE_LOST);
  std::string text;
  EXPECT_EQ(code_of([&] { device->submit(list); }, &text), ErrorCode::DeviceLost);
  EXPECT_NE(text.find("vkQueueSubmit: the device was lost (device \""), text.npos) << text;
  EXPECT_TRUE(device->lost());
  std::vector<std::uint32_t> values(100);
  const std::map<std::string, std::function<void()>> calls = {
      {"submit", [&] { device->submit(list); }},
      {"buffer", [&] { device->buffer(64); }},
      {"upload", [&] { device->upload(buffer, std::span<const std::uint32_t>(values)); }},
      {"download", [&] { device->download(buffer, std::span(values)); }},
      {"kernel", [&] { map_kernel(*device, "uint", "a[i] + 1u"); }},
      {"list", [&] { device->command_list(); }},
      {"wait", [&] { device->wait_idle(); }}};
  for (const auto& [name, call] : calls) EXPECT_EQ(code_of(call), ErrorCode::DeviceLost) << name;
  // Opening again gives another device that works.
  const auto fresh = require_device(device->options());
  EXPECT_NE(fresh, device);
  const Buffer again = filled(*fresh, counting<std::uint32_t>(10));
  EXPECT_EQ(contents<std::uint32_t>(*fresh, again), counting<std::uint32_t>(10));
  release_devices();
}

TEST_F(VulkanFaults, MemoryErrorsAreTypedAndNameTheBuffer) {
  const auto device = own_device(52);
  const struct {
    VkResult result;
    ErrorCode code;
  } rows[] = {{VK_ERROR_OUT_OF_DEVICE_MEMORY, ErrorCode::OutOfDeviceMemory},
              {VK_ERROR_OUT_OF_HOST_MEMORY, ErrorCode::OutOfHostMemory}};
  for (const auto& row : rows) {
    // One failure is handled by returning pooled memory.
    device->trim();
    device->inject_fault("vkAllocateMemory", 0, row.result);
    EXPECT_EQ(device->buffer(1000).size(), 1000u);
    EXPECT_FALSE(device->lost());
  }
  for (const auto& row : rows) {
    device->trim();
    device->inject_fault("vkAllocateMemory", 0, row.result, 2);
    std::string text;
    EXPECT_EQ(code_of([&] { device->buffer(1000, MemoryKind::Device, "short"); }, &text), row.code);
    EXPECT_TRUE(text.starts_with("vkAllocateMemory: ")) << text;
    EXPECT_NE(text.find(": buffer \"short\" of 1000 bytes, beside 0 bytes in use"), text.npos)
        << text;
  }
}

TEST_F(VulkanFaults, MoreThanAHeapHoldsIsRefusedAndHarmless) {
  const auto device = own_device(55);
  std::uint64_t bytes = 0;
  for (const MemoryHeap& heap : device->info().heaps) bytes = std::max(bytes, heap.size);
  const std::uint64_t huge = device->limits().max_allocation_size / 256 * 256;
  if (bytes > std::uint64_t{16} << 30) GTEST_SKIP() << "filling " << bytes << " bytes takes long";
  std::vector<Buffer> held;
  std::string text;
  const ErrorCode code = code_of(
      [&] {
        while (held.size() < 100) held.push_back(device->buffer(huge, MemoryKind::Device, "huge"));
      },
      &text);
  EXPECT_EQ(code, ErrorCode::OutOfDeviceMemory) << text;
  EXPECT_NE(text.find("buffer \"huge\" of " + std::to_string(huge) + " bytes"), text.npos) << text;
  EXPECT_FALSE(device->lost());
  held.clear();
  EXPECT_EQ(device->buffer(4096).size(), 4096u);
}

// One full round: pipelines, memory, staging both ways, a list with timestamps, waits.
std::vector<std::uint32_t> round_trip(Device& device, const std::vector<std::uint32_t>& spirv) {
  const Kernel kernel = device.kernel({.spirv = spirv,
                                       .name = "round",
                                       .storage_buffers = 1,
                                       .push_constant_bytes = 4,
                                       .local_size = {64, 1, 1}});
  const Buffer buffer = filled(device, counting<std::uint32_t>(100));
  CommandList list = device.command_list("round");
  list.write_timestamp("begin");
  record_map(list, kernel, buffer, 100);
  list.write_timestamp("end");
  device.submit(list);
  list.timestamps();
  return contents<std::uint32_t>(device, buffer);
}

// For each failing call and result: one typed error, then the device works or reports its loss.
TEST_F(VulkanFaults, AnyFailingCallGivesOneTypedError) {
  const auto spirv = compile(map_shader("uint", "a[i] + 1u"));
  const auto expected = counting<std::uint32_t>(100, 1);
  const auto counted = own_device(53);
  const std::uint64_t start = counted->driver_calls();
  ASSERT_EQ(round_trip(*counted, spirv), expected);
  const std::uint64_t calls = counted->driver_calls() - start;
  EXPECT_GT(calls, 20u);
  const struct {
    VkResult result;
    ErrorCode code;
  } rows[] = {{VK_ERROR_OUT_OF_DEVICE_MEMORY, ErrorCode::OutOfDeviceMemory},
              {VK_ERROR_OUT_OF_HOST_MEMORY, ErrorCode::OutOfHostMemory},
              {VK_ERROR_DEVICE_LOST, ErrorCode::DeviceLost},
              {VK_ERROR_UNKNOWN, ErrorCode::DeviceLost}};
  std::uint64_t errors = 0;
  for (const auto& row : rows) {
    auto device = own_device(54);
    for (std::uint64_t k = 0; k < calls; ++k) {
      device->inject_fault("", k, row.result);
      std::string text;
      const ErrorCode code = code_of([&] { round_trip(*device, spirv); }, &text);
      const bool pipeline = text.starts_with("kernel ") && row.result == VK_ERROR_UNKNOWN;
      // Nothing is thrown if the pools recover, or if warm caches make fewer calls.
      if (code != ErrorCode::Stopped) {
        EXPECT_EQ(code, pipeline ? ErrorCode::Unsupported : row.code) << k << ": " << text;
        ++errors;
      }
      device->inject_fault("", 0, row.result, 0);
      EXPECT_EQ(device->lost(), code == ErrorCode::DeviceLost) << k;
      if (device->lost()) device = own_device(54);
      ASSERT_EQ(round_trip(*device, spirv), expected) << k << ": " << text;
    }
  }
  EXPECT_GT(errors, calls);
}

}  // namespace
}  // namespace topograd::test
