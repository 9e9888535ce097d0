// Arrays on a Vulkan device, between guard zones.
#include "../../support/validation.hpp"
#include "../masked.hpp"
#include "array_tests.hpp"

#include "../../../ops/arrays.hpp"
#include "../../../ops/run/storage.hpp"
#include "../../../ops/tensor/with_options.hpp"
#include "../../../ops/vulkan/backend.hpp"
#include "../../../runtime/device/device.hpp"

#include <memory>
#include <span>

namespace topograd::ops {
namespace {

class ArraysOnDevice : public topograd::test::VulkanTest {
 protected:
  void run(void (*check)(const Device&)) {
    if (!device_) return;
    set_guard_zones(256);
    test::run_masked(check);
    const std::vector<std::string> written = check_guard_zones();
    set_guard_zones(0);
    for (const std::string& line : written) ADD_FAILURE() << line;
  }
};

TEST_F(ArraysOnDevice, MapEveryTypeAndSize) { run(test::check_maps); }
TEST_F(ArraysOnDevice, MapForms) { run(test::check_map_forms); }
TEST_F(ArraysOnDevice, ReduceEveryTypeAndSize) { run(test::check_reductions); }
TEST_F(ArraysOnDevice, ReductionForms) { run(test::check_reduction_forms); }
TEST_F(ArraysOnDevice, ScanEveryTypeAndSize) { run(test::check_scans); }
TEST_F(ArraysOnDevice, GatherScatterCompact) { run(test::check_indices); }
TEST_F(ArraysOnDevice, SortEveryTypeAndSize) { run(test::check_sorts); }
TEST_F(ArraysOnDevice, FoldAndScanExpressions) { run(test::check_folds); }
TEST_F(ArraysOnDevice, ReduceSegments) { run(test::check_segments); }
TEST_F(ArraysOnDevice, Histograms) { run(test::check_histograms); }
TEST_F(ArraysOnDevice, RandomNumbers) { run(test::check_random); }

/// The cases compare with loops, and here each operation also with the CPU.
TEST_F(ArraysOnDevice, EachOperationAgreesWithTheCpu) {
  if (!device_) return;
  const Device device = Device::vulkan();
  with_options({.device = device, .cross_check = true}, [&] {
    for (const auto check : {test::check_map_forms, test::check_reduction_forms, test::check_scans,
                             test::check_indices, test::check_sorts, test::check_segments,
                             test::check_histograms, test::check_random})
      check(device);
  });
}

TEST_F(ArraysOnDevice, OutOfMemory) {
  if (!device_) return;
  const Device small = open_vulkan({.limits = {.max_allocation_size = 1 << 20}});
  try {
    Array<float>::full(500'000, 1).to(small);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfDeviceMemory);
    EXPECT_EQ(error.what(), "array: expected at most 1048576 bytes at once on \"" + small.name() +
                                "\", got 2000000");
  }
}

TEST_F(ArraysOnDevice, CallersMemoryIsWorkedOnInPlace) {
  if (!device_) return;
  const Device device = Device::vulkan();
  constexpr std::size_t kCount = 3 * 4096;
  std::vector<float> room(kCount + 1024, 1.0f);
  void* first = room.data();
  std::size_t left = room.size() * sizeof(float);
  ASSERT_NE(std::align(4096, kCount * sizeof(float), first, left), nullptr);
  const std::span<float> pages(static_cast<float*>(first), kCount);
  const auto used = [&](std::span<float> memory, bool imported) {
    const BackendCounters before = device.backend().counters();
    Array<float> x = Array<float>::over(memory);
    x.to(device);
    EXPECT_EQ(sum(x).item(), static_cast<float>(memory.size()));
    Array<float> all = x;
    scatter(Array<float>({5}), Array<std::uint32_t>({7}), all);
    EXPECT_EQ(x.read()[7], 5.0f);
    // Copied data return to the caller's memory, unless the host can access the device's.
    const bool in_place = imported || !device.facts().unified;
    EXPECT_EQ(x.read().data() == memory.data(), in_place);
    EXPECT_EQ(memory[7], in_place ? 5.0f : 1.0f);
    x.write()[7] = 1;
    EXPECT_EQ(sum(x).item(), static_cast<float>(memory.size()));
    return (device.backend().counters() - before).bytes_up;
  };
  const std::uint64_t alignment =
      runtime::vulkan::host_import_alignment(*vulkan_device(device.backend()));
  if (alignment == 0 || alignment > 4096) GTEST_SKIP() << "the device imports no pages of 4 KiB";
  // The two numbers that are scattered, and their places.
  EXPECT_LE(used(pages, true), 8u);
  // Partial pages are copied.
  EXPECT_GE(used(pages.subspan(1, 4096), false), 4 * 4096u);
}

TEST_F(ArraysOnDevice, ReadsBegunAreOfTheNumbersThen) {
  if (!device_) return;
  // Memory that the host cannot access, so that data are copied.
  const Device device = open_vulkan({.mask = "mapped_memory"});
  ASSERT_FALSE(device.facts().unified);
  Array<float> x = Array<float>::full(1000, 1).to(device);
  const Array<float> y = map([](Value v) { return v + 1.0; }, x);
  const std::uint64_t down = device.backend().counters().bytes_down;
  y.begin_read();
  EXPECT_EQ(device.backend().counters().bytes_down, down + 4000);
  Array<float> target = y;
  const Array<float> later = map([](Value v) { return v * 3.0; }, y);
  EXPECT_EQ(y.read()[999], 2.0f);
  EXPECT_EQ(device.backend().counters().bytes_down, down + 4000);
  scatter(Array<float>({7}), Array<std::uint32_t>({999}), target);
  EXPECT_EQ(y.read()[999], 7.0f);
  EXPECT_EQ(later.begin_read().begin_read().read()[999], 6.0f);
}

}  // namespace
}  // namespace topograd::ops
