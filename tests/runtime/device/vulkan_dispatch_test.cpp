// Kernels, command lists and their errors, on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "../../../ir/error.hpp"

#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

class VulkanDispatch : public VulkanTest {};

TEST_F(VulkanDispatch, SquaresEveryElement) {
  constexpr std::uint32_t kCount = 1000;
  const Kernel square = map_kernel(*device_, "float", "a[i] * a[i]");
  const auto values = counting<float>(kCount, -500.0f);
  const Buffer buffer = filled(*device_, values);
  const Counters before = device_->counters();
  CommandList list = device_->command_list("squares");
  record_map(list, square, buffer, kCount);
  device_->submit(list).wait();
  const auto squares = contents<float>(*device_, buffer);
  for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(squares[i], values[i] * values[i]) << i;
  const Counters spent = device_->counters() - before;
  EXPECT_EQ(spent.dispatches, 1u);
  // If the host cannot read the memory directly, the readback takes its own submission.
  EXPECT_EQ(spent.submissions, buffer.readable() ? 1u : 2u);
  EXPECT_EQ(spent.readbacks, 1u);
  EXPECT_EQ(spent.bytes_down, kCount * sizeof(float));
}

TEST_F(VulkanDispatch, LeavesElementsBeyondTheCountAlone) {
  const Kernel clear = map_kernel(*device_, "uint", "7u");
  const Buffer buffer = filled(*device_, counting<std::uint32_t>(100));
  CommandList list = device_->command_list();
  record_map(list, clear, buffer, 65);
  device_->submit(list).wait();
  const auto values = contents<std::uint32_t>(*device_, buffer);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], i < 65 ? 7u : i) << i;
}

TEST_F(VulkanDispatch, ReplaysAListAlsoWhileItRuns) {
  constexpr std::uint32_t kReplays = 50;
  const Kernel increment = map_kernel(*device_, "uint", "a[i] + 1u");
  const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(300, 0));
  CommandList list = device_->command_list("increments");
  record_map(list, increment, buffer, 300);
  list.barrier();
  record_map(list, increment, buffer, 300);
  const Counters before = device_->counters();
  for (std::uint32_t i = 0; i < kReplays; ++i) device_->submit(list);
  const auto values = contents<std::uint32_t>(*device_, buffer);
  EXPECT_EQ(values, std::vector<std::uint32_t>(300, 2 * kReplays));
  EXPECT_EQ((device_->counters() - before).dispatches, 2 * kReplays);
}

TEST_F(VulkanDispatch, RunsListsOfTwoThreads) {
  const auto work = [&](std::uint32_t step, std::vector<std::uint32_t>& result) {
    const Kernel add = map_kernel(*device_, "uint", "a[i] + " + std::to_string(step) + "u");
    const Buffer buffer = filled(*device_, counting<std::uint32_t>(500));
    for (int round = 0; round < 20; ++round) {
      CommandList list = device_->command_list("thread");
      record_map(list, add, buffer, 500);
      device_->submit(list).wait();
    }
    result = contents<std::uint32_t>(*device_, buffer);
  };
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> second;
  std::thread other([&] { work(3, second); });
  work(5, first);
  other.join();
  EXPECT_EQ(first, counting<std::uint32_t>(500, 100));
  EXPECT_EQ(second, counting<std::uint32_t>(500, 60));
}

TEST_F(VulkanDispatch, TakesGroupCountsFromABuffer) {
  const Kernel mark = map_kernel(*device_, "uint", "1u");
  const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(256, 0));
  const Buffer counts = filled<std::uint32_t>(*device_, {9, 2, 1, 1});
  CommandList list = device_->command_list();
  const Binding binding{&buffer};
  list.dispatch_indirect(mark, {&binding, 1}, push_bytes(std::uint32_t{256}), counts, 4);
  device_->submit(list).wait();
  const auto values = contents<std::uint32_t>(*device_, buffer);
  for (std::uint32_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], i < 128 ? 1u : 0u) << i;
}

TEST_F(VulkanDispatch, ConditionalSectionsSayWhatRunsBehindThem) {
  const Kernel negate = map_kernel(*device_, "int", "-a[i]");
  const Buffer buffer = filled(*device_, counting<std::int32_t>(256));
  const Buffer counts = filled<std::uint32_t>(*device_, {1, 1, 1, 0, 0, 0, 2, 1, 1});
  const Binding binding{&buffer};
  const auto section = [&](CommandList& list) {
    for (const std::uint32_t groups : {2u, 2u, 1u}) {
      list.dispatch(negate, {&binding, 1}, push_bytes(std::uint32_t{256}), groups);
      list.barrier();
    }
  };
  const auto as_recorded = [](const std::vector<Groups>& groups) {
    ASSERT_EQ(groups.size(), 3u);
    EXPECT_EQ(groups[1].x, 2u);
    EXPECT_EQ(groups[2].x, 1u);
  };
  CommandList list = device_->command_list("in_conditional");
  list.open_conditional(nullptr);
  section(list);
  as_recorded(list.close_conditional());
  EXPECT_EQ(list.dispatches(), 0u);
  list.open_conditional(&counts);
  EXPECT_TRUE(list.in_conditional());
  EXPECT_THROW(list.fill(buffer, 0, 4, 0), Error);
  EXPECT_THROW(list.open_conditional(&counts), Error);
  section(list);
  as_recorded(list.close_conditional());
  EXPECT_THROW(list.close_conditional(), Error);
  EXPECT_EQ(list.dispatches(), 3u);
  device_->submit(list).wait();
  // One workgroup of 64, none, two of them.
  const auto values = contents<std::int32_t>(*device_, buffer);
  const auto before = counting<std::int32_t>(256);
  for (std::size_t i = 0; i < 256; ++i)
    EXPECT_EQ(values[i], i >= 64 && i < 128 ? -before[i] : before[i]) << i;
}

TEST_F(VulkanDispatch, CopiesFillsAndBindsRanges) {
  const Kernel negate = map_kernel(*device_, "int", "-a[i]");
  const Buffer source = filled(*device_, counting<std::int32_t>(1024));
  const Buffer target = device_->buffer(4096, MemoryKind::Device, "target");
  const Buffer result = device_->buffer(4096, MemoryKind::Readback, "result");
  CommandList list = device_->command_list();
  list.fill(target, 0, 4096, 77);
  list.barrier();
  list.copy(source, 1024, target, 2048, 1024);
  list.barrier();
  const Binding binding{&target, 2048, 512};
  list.dispatch(negate, {&binding, 1}, push_bytes(std::uint32_t{128}), 2);
  list.barrier();
  list.copy(target, 0, result, 0, 4096);
  const Counters before = device_->counters();
  device_->submit(list).wait();
  EXPECT_EQ((device_->counters() - before).readbacks, 1u);
  std::vector<std::int32_t> values(1024);
  std::memcpy(values.data(), result.mapped(), 4096);
  for (std::int32_t i = 0; i < 1024; ++i) {
    const std::int32_t moved = i - 512 + 256;
    EXPECT_EQ(values[i], i < 512 || i >= 768 ? 77 : i < 640 ? -moved : moved) << i;
  }
}

TEST_F(VulkanDispatch, ComputesInDoublesAndLongIntegers) {
  if (!device_->features().float64 || !device_->features().int64) GTEST_SKIP() << "no f64";
  std::vector<double> doubles;
  for (int i = 1; i <= 200; ++i) doubles.push_back(i / 7.0);
  const Buffer reals = filled(*device_, doubles);
  const Buffer integers = filled(*device_, counting<std::uint64_t>(200, 1ull << 40));
  const Kernel root = map_kernel(*device_, "double", "sqrt(a[i])");
  const Kernel product = map_kernel(*device_, "uint64_t", "a[i] * 1000003ul",
                                    "#extension GL_ARB_gpu_shader_int64 : require");
  CommandList list = device_->command_list();
  record_map(list, root, reals, 200);
  record_map(list, product, integers, 200);
  device_->submit(list).wait();
  const auto roots = contents<double>(*device_, reals);
  const auto products = contents<std::uint64_t>(*device_, integers);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(roots[i], std::sqrt(doubles[i])) << i;
    EXPECT_EQ(products[i], ((1ull << 40) + i) * 1000003ull) << i;
  }
}

TEST_F(VulkanDispatch, AddsWithEveryAtomicTheDeviceHas) {
  struct Row {
    const char* name;
    bool there;
    const char* type;
    const char* extension;
    std::size_t bytes;
  };
  const Features& features = device_->features();
  const Row rows[] = {
      {"f32", features.atomic_float32_add, "float", "GL_EXT_shader_atomic_float", 4},
      {"f64", features.atomic_float64_add, "double", "GL_EXT_shader_atomic_float", 8},
      {"u64", features.int64_atomics, "uint64_t",
       "GL_ARB_gpu_shader_int64 : require\n#extension GL_EXT_shader_atomic_int64", 8}};
  for (const Row& row : rows) {
    if (!row.there) continue;
    const auto spirv =
        compile(std::string("#version 450\n#extension ") + row.extension +
                " : require\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer A { " +
                row.type + " a[]; };\nvoid main() { atomicAdd(a[0], " + row.type + "(2)); }\n");
    const Kernel kernel = device_->kernel(
        {.spirv = spirv, .name = row.name, .storage_buffers = 1, .local_size = {64, 1, 1}});
    const Buffer buffer = filled(*device_, std::vector<std::uint64_t>(2, 0));
    CommandList list = device_->command_list(row.name);
    const Binding binding{&buffer};
    list.dispatch(kernel, {&binding, 1}, {}, 10);
    device_->submit(list).wait();
    const std::uint64_t bits = contents<std::uint64_t>(*device_, buffer)[0];
    const std::uint64_t expected = std::string_view(row.name) == "u64" ? 1280
                                   : row.bytes == 8 ? std::bit_cast<std::uint64_t>(1280.0)
                                                    : std::bit_cast<std::uint32_t>(1280.0f);
    EXPECT_EQ(bits, expected) << row.name;
  }
}

TEST_F(VulkanDispatch, SpecialisesConstantsAndFindsEqualKernels) {
  const auto spirv = compile(
      "#version 450\nlayout(local_size_x = 64) in;\nlayout(constant_id = 3) const uint k = 1;\n"
      "layout(binding = 0) buffer A { uint a[]; };\nvoid main() { a[gl_GlobalInvocationID.x] = k; "
      "}\n");
  KernelDesc desc{
      .spirv = spirv, .name = "constant", .storage_buffers = 1, .local_size = {64, 1, 1}};
  const Counters before = device_->counters();
  const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(64, 0));
  const Binding binding{&buffer};
  for (const std::uint32_t value : {5u, 9u, 5u}) {
    desc.constants = {{3, value}};
    CommandList list = device_->command_list();
    list.dispatch(device_->kernel(desc), {&binding, 1}, {}, 1);
    device_->submit(list).wait();
    EXPECT_EQ(contents<std::uint32_t>(*device_, buffer), std::vector<std::uint32_t>(64, value));
  }
  const Counters spent = device_->counters() - before;
  EXPECT_EQ(spent.pipelines_created, 2u);
  EXPECT_EQ(spent.pipeline_cache_hits, 1u);
}

// Limit of one loop, and of nested loops: some devices count them together.
TEST_F(VulkanDispatch, LoopsRunAsLongAsTheLimitSays) {
  const std::uint32_t count = std::min(device_->limits().max_loop_iterations, 200'000u);
  const std::string body = "; ++k) a[i] += 1u";
  const std::string inner = std::to_string(count / 20 - 20);
  const struct {
    std::string loops;
    std::uint32_t expected;
  } rows[] = {{"0u; for (uint k = 0; k < " + std::to_string(count) + "u" + body, count},
              {"0u; for (uint j = 0; j < 20u; ++j) for (uint k = 0; k < " + inner + "u" + body,
               (count / 20 - 20) * 20}};
  for (const auto& row : rows) {
    const Kernel loops = map_kernel(*device_, "uint", row.loops);
    const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(64, 0));
    CommandList list = device_->command_list("loops");
    record_map(list, loops, buffer, 64);
    device_->submit(list).wait();
    EXPECT_EQ(contents<std::uint32_t>(*device_, buffer),
              std::vector<std::uint32_t>(64, row.expected));
  }
}

TEST_F(VulkanDispatch, TimesWhatRunsBetweenLabels) {
  if (!device_->features().timestamps) GTEST_SKIP() << "no timestamps";
  constexpr std::uint32_t kLabels = 70;  // more than one query pool holds
  const Kernel increment = map_kernel(*device_, "uint", "a[i] + 1u");
  const Buffer buffer = filled(*device_, std::vector<std::uint32_t>(100000, 0));
  CommandList list = device_->command_list("timed");
  EXPECT_TRUE(list.timestamps().empty());
  for (std::uint32_t i = 0; i < kLabels; ++i) {
    list.write_timestamp("t" + std::to_string(i));
    record_map(list, increment, buffer, 100000);
    list.barrier();
  }
  for (int replay = 0; replay < 2; ++replay) {
    device_->submit(list);
    const auto times = list.timestamps();
    ASSERT_EQ(times.size(), kLabels);
    EXPECT_EQ(times[0].microseconds, 0.0);
    EXPECT_EQ(times[69].label, "t69");
    for (std::uint32_t i = 1; i < kLabels; ++i) {
      EXPECT_GE(times[i].microseconds, times[i - 1].microseconds) << i;
    }
    EXPECT_GT(times.back().microseconds, 0.0);
    EXPECT_LT(times.back().microseconds, 60e6);
  }
}

}  // namespace
}  // namespace topograd::test
