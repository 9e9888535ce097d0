// Size classes, pools, staging and lifetimes of buffers.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "../../../ir/error.hpp"

#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

class VulkanMemory : public VulkanTest {};

TEST_F(VulkanMemory, PoolsWithoutDriverAllocationsInSteadyState) {
  const std::uint64_t sizes[] = {1, 255, 4096, 100000, 3 << 20, 40 << 20};
  const MemoryKind kinds[] = {MemoryKind::Device, MemoryKind::Upload, MemoryKind::Readback};
  const auto step = [&] {
    std::vector<Buffer> live;
    for (const std::uint64_t size : sizes) {
      for (const MemoryKind kind : kinds) live.push_back(device_->buffer(size, kind, "step"));
    }
  };
  step();
  const Counters before = device_->counters();
  const MemoryStatistics start = device_->memory();
  for (int i = 0; i < 1000; ++i) step();
  const MemoryStatistics end = device_->memory();
  EXPECT_EQ((device_->counters() - before).driver_allocations, 0u);
  EXPECT_EQ(end.allocations - start.allocations, 18000u);
  EXPECT_EQ(end.pool_hits - start.pool_hits, 18000u);
  EXPECT_EQ(end.bytes_reserved, start.bytes_reserved);
  EXPECT_EQ(end.bytes_in_use, start.bytes_in_use);
}

TEST_F(VulkanMemory, CountsWhatIsInUseAndGivesBackWhatIsNot) {
  const auto own = require_device({.timeout_seconds = 59});
  own->trim();
  const MemoryStatistics start = own->memory();
  Buffer small = own->buffer(1000);
  Buffer large = own->buffer(std::uint64_t{100} << 20);
  MemoryStatistics now = own->memory();
  EXPECT_EQ(now.bytes_in_use - start.bytes_in_use, 1000u + (100u << 20));
  EXPECT_LE(now.bytes_padding - start.bytes_padding, 255u + (100u << 20) / 32);
  EXPECT_GE(now.bytes_reserved, now.bytes_in_use + now.bytes_padding);
  EXPECT_GE(now.peak_bytes_in_use, now.bytes_in_use);
  large = Buffer{};
  EXPECT_EQ(own->memory().bytes_reserved, now.bytes_reserved);
  own->trim();
  EXPECT_LE(own->memory().bytes_reserved, now.bytes_reserved - (100u << 20));
  small = Buffer{};
  own->trim();
  EXPECT_EQ(own->memory().bytes_in_use, 0u);
  EXPECT_EQ(own->memory().bytes_reserved, 0u);
}

TEST_F(VulkanMemory, WhatNobodyUsesGoesBackAfterSomeSeconds) {
  const auto own = require_device({.timeout_seconds = 57});
  const Buffer used = own->buffer(std::uint64_t{8} << 20);
  { const Buffer idle = own->buffer(std::uint64_t{100} << 20); }
  EXPECT_GE(own->memory().bytes_reserved, std::uint64_t{108} << 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(2600));
  const Buffer next = own->buffer(1000);
  const MemoryStatistics now = own->memory();
  EXPECT_GE(now.bytes_reserved, std::uint64_t{8} << 20);
  EXPECT_LT(now.bytes_reserved, std::uint64_t{16} << 20);
}

TEST_F(VulkanMemory, ReservesLittleMoreThanItGives) {
  const auto own = require_device({.timeout_seconds = 58});
  std::vector<Buffer> live;
  // From a mesh of some hundred vertices to a million, in irregular sizes.
  for (std::uint64_t k = 1, size = 1000; size < std::uint64_t{24} << 20;
       ++k, size += size / 5 + 77) {
    for (std::uint64_t more = 0; more < 3; ++more) live.push_back(own->buffer(size + 991 * more));
    const MemoryStatistics now = own->memory();
    if (now.bytes_in_use < std::uint64_t{8} << 20) continue;
    EXPECT_LE(static_cast<double>(now.bytes_reserved - now.bytes_in_use),
              0.05 * static_cast<double>(now.bytes_in_use))
        << now.bytes_in_use << " bytes in " << now.driver_allocations << " allocations";
  }
  EXPECT_LT(own->memory().driver_allocations, 200u);
}

TEST_F(VulkanMemory, AFreeSlotThatIsALittleLargerServes) {
  const auto own = require_device({.timeout_seconds = 57});
  own->buffer(100'000);
  const std::uint64_t hits = own->memory().pool_hits;
  { const Buffer smaller = own->buffer(92'000); }
  EXPECT_EQ(own->memory().pool_hits, hits + 1);
  { const Buffer far = own->buffer(80'000); }
  EXPECT_EQ(own->memory().pool_hits, hits + 1);
}

TEST_F(VulkanMemory, KindsAreMappedAsPromised) {
  EXPECT_NE(device_->buffer(64, MemoryKind::Upload).mapped(), nullptr);
  EXPECT_NE(device_->buffer(64, MemoryKind::Readback).mapped(), nullptr);
  const auto unmapped = require_device({.mask = "mapped_memory"});
  EXPECT_EQ(unmapped->buffer(64).mapped(), nullptr);
  EXPECT_NE(unmapped->buffer(64, MemoryKind::Upload).mapped(), nullptr);
}

// Larger than both rings together, in pieces that do not divide their size.
TEST_F(VulkanMemory, StagesMoreThanTheRingHolds) {
  for (const char* mask : {"", "mapped_memory"}) {
    const auto device = require_device({.mask = mask});
    constexpr std::size_t kCount = 10'000'019;
    auto values = counting<std::uint32_t>(kCount, 5);
    const Buffer buffer = device->buffer(kCount * 4 + 4, MemoryKind::Device, "big");
    const Counters before = device->counters();
    device->upload(buffer, std::span<const std::uint32_t>(values), 4);
    std::vector<std::uint32_t> back(kCount);
    device->download(buffer, std::span(back), 4);
    EXPECT_EQ(back, values) << mask;
    const Counters spent = device->counters() - before;
    EXPECT_EQ(spent.uploads, 1u);
    EXPECT_EQ(spent.readbacks, 1u);
    EXPECT_EQ(spent.bytes_up, kCount * 4);
    EXPECT_EQ(spent.bytes_down, kCount * 4);
  }
}

TEST_F(VulkanMemory, UploadsKeepTheirOrder) {
  for (const char* mask : {"", "mapped_memory"}) {
    const auto device = require_device({.mask = mask});
    const Kernel twice = map_kernel(*device, "uint", "a[i] * 2u");
    const Buffer buffer = device->buffer(400, MemoryKind::Device, "ordered");
    const Buffer result = device->buffer(3 * 400, MemoryKind::Readback, "results");
    CommandList lists[3];
    for (std::uint32_t round = 0; round < 3; ++round) {
      // Twice into the same bytes: the second write wins.
      device->upload(buffer, std::span<const std::uint32_t>(counting<std::uint32_t>(100, 9)));
      device->upload(buffer, std::span<const std::uint32_t>(counting<std::uint32_t>(100, round)));
      lists[round] = device->command_list("ordered");
      record_map(lists[round], twice, buffer, 100);
      lists[round].barrier();
      lists[round].copy(buffer, 0, result, 400 * round, 400);
      device->submit(lists[round]);
    }
    device->wait_idle();
    std::vector<std::uint32_t> values(300);
    std::memcpy(values.data(), result.mapped(), 1200);
    for (std::uint32_t i = 0; i < 300; ++i) EXPECT_EQ(values[i], 2 * (i % 100 + i / 100)) << mask;
  }
}

TEST_F(VulkanMemory, BatchesAreOneSubmission) {
  const auto device = require_device({.mask = "mapped_memory"});
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::uint32_t>> values;
  std::vector<std::vector<std::uint32_t>> back(20, std::vector<std::uint32_t>(50));
  std::vector<Upload> up;
  std::vector<Download> down;
  for (std::uint32_t i = 0; i < 20; ++i) {
    buffers.push_back(device->buffer(200, MemoryKind::Device, "batch"));
    values.push_back(counting<std::uint32_t>(50, 100 * i));
  }
  for (std::size_t i = 0; i < 20; ++i) {
    up.push_back({&buffers[i], 0, std::as_bytes(std::span(values[i]))});
    down.push_back({&buffers[i], 0, std::as_writable_bytes(std::span(back[i]))});
  }
  const Counters before = device->counters();
  device->upload(up);
  device->download(down);
  EXPECT_EQ(back, values);
  EXPECT_EQ((device->counters() - before).submissions, 2u);
}

TEST_F(VulkanMemory, WhatIsInFlightOutlivesItsHandles) {
  const Buffer result = device_->buffer(400, MemoryKind::Readback, "result");
  Submission last;
  {
    const Kernel twice = map_kernel(*device_, "uint", "a[i] * 2u");
    for (int i = 0; i < 50; ++i) {
      const Buffer buffer = filled(*device_, counting<std::uint32_t>(100));
      CommandList list = device_->command_list("short-lived");
      record_map(list, twice, buffer, 100);
      list.barrier();
      list.copy(buffer, 0, result, 0, 400);
      last = device_->submit(list);
    }
  }
  last.wait();
  EXPECT_TRUE(last.done());
  std::vector<std::uint32_t> values(100);
  std::memcpy(values.data(), result.mapped(), 400);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], 2 * i);
}

TEST_F(VulkanMemory, ADeviceMayGoWhileItsWorkRuns) {
  for (int i = 0; i < 5; ++i) {
    const auto own = require_device({.timeout_seconds = 30.0 + i});
    release_devices();
    const Kernel twice = map_kernel(*own, "uint", "a[i] * 2u");
    const Buffer buffer = filled(*own, counting<std::uint32_t>(1 << 20));
    CommandList list = own->command_list("orphan");
    record_map(list, twice, buffer, 1 << 20);
    own->submit(list);
  }
  EXPECT_EQ(contents<std::uint32_t>(*device_, filled(*device_, counting<std::uint32_t>(9))).size(),
            9u);
}

TEST_F(VulkanMemory, TwoThreadsShareThePools) {
  const auto work = [&](std::uint32_t seed) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      const auto values = counting<std::uint32_t>(100 + i * 7, seed + i);
      const Buffer buffer = filled(*device_, values);
      ASSERT_EQ(contents<std::uint32_t>(*device_, buffer), values);
    }
  };
  std::thread other([&] { work(1000); });
  work(1);
  other.join();
}

}  // namespace
}  // namespace topograd::test
