// The Vulkan backend: launches, hazards, misaligned arguments, residency, guard zones.
#include "../support/validation.hpp"

#include "../../ir/error.hpp"
#include "../../ops/run/run.hpp"
#include "../../ops/run/storage.hpp"
#include "../../ops/vulkan/backend.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace topograd::ops {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// to(i) = from(i) * factor + i; `beyond` adds one element too many.
const ComputeKernel& scale() {
  static const ComputeKernel text =
      make_kernel({.name = "test_scale",
                   .local_size = {64, 1, 1},
                   .arguments = {{"from", "uint", Access::read}, {"to", "uint", Access::write}},
                   .words = {"count", "factor", "beyond"},
                   .body = R"(
  uint i = linear_item();
  if (i < count) to(i) = from(i) * factor + i;
  if (i == 0u && beyond == 1u) to(count) = 7u;
  if (i == 0u && beyond == 2u) to(-1) = 7u;
)"});
  return text;
}

class OpsBackend : public test::VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (device_) backend_ = Device::vulkan().shared_backend();
  }
  std::shared_ptr<Storage> make(const Numbers& values) {
    auto storage = std::make_shared<Storage>(4 * values.size());
    std::memcpy(storage->write_host(false), values.data(), 4 * values.size());
    return storage;
  }
  static Numbers read(Storage& storage) {
    Numbers out(storage.bytes() / 4);
    std::memcpy(out.data(), storage.read_host(), storage.bytes());
    return out;
  }
  void launch(Storage& from, std::uint64_t first, Storage& to, std::uint64_t to_first,
              std::uint32_t count, std::uint32_t factor, std::uint32_t beyond = 0) {
    const Argument arguments[] = {
        {from.read_on(*backend_), 4 * first, 4ull * count, 4, Access::read},
        {to.write_on(*backend_, true), 4 * to_first, 4ull * count, 4, Access::write}};
    const std::uint32_t words[] = {count, factor, beyond};
    backend_->launch({.kernel = &scale(),
                      .arguments = arguments,
                      .words = words,
                      .groups = linear_groups(*backend_, scale(), count)});
  }
  std::shared_ptr<OpBackend> backend_;
};

TEST_F(OpsBackend, RunsMisalignedSlicesAndLeavesTheirNeighbours) {
  for (const std::uint32_t first : {0u, 1u, 3u, 5u, 31u}) {
    for (const std::uint32_t count : {1u, 2u, 31u, 257u}) {
      Numbers values(400);
      std::iota(values.begin(), values.end(), 10u);
      const auto from = make(values);
      const auto to = make(Numbers(400, 99));
      launch(*from, first, *to, first + 1, count, 3);
      Numbers expected(400, 99);
      for (std::uint32_t i = 0; i < count; ++i) expected[first + 1 + i] = (10 + first + i) * 3 + i;
      EXPECT_EQ(read(*to), expected) << first << " " << count;
    }
  }
}

TEST_F(OpsBackend, OrdersChainsAndSubmitsThemTogether) {
  const auto a = make(Numbers(1000, 1)), b = make(Numbers(1000)), c = make(Numbers(1000));
  read(*a);
  launch(*a, 0, *b, 0, 1000, 1);  // compiles
  backend_->synchronise();
  const BackendCounters before = backend_->counters();
  for (int k = 0; k < 10; ++k) {
    launch(*a, 0, *b, 0, 1000, 2);  // waits for the earlier read of b
    launch(*b, 0, *c, 0, 1000, 1);  // waits for b
    launch(*a, 0, *a, 0, 0, 1);     // no elements
  }
  const Numbers got = read(*c);
  const BackendCounters used = backend_->counters() - before;
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], 2 + 2 * i);
  EXPECT_EQ(used.launches, 30u);
  EXPECT_LE(used.submissions, 2u);
  EXPECT_LE(used.barriers, 30u);
  EXPECT_GE(used.barriers, 19u);
  EXPECT_EQ(used.compiled, 0u);
}

TEST_F(OpsBackend, NeedsNoBarrierBetweenLaunchesThatShareNothingWritten) {
  const auto a = make(Numbers(64, 1));
  std::vector<std::shared_ptr<Storage>> outs;
  for (int k = 0; k < 8; ++k) outs.push_back(make(Numbers(64)));
  for (const auto& out : outs) out->read_on(*backend_);
  a->read_on(*backend_);
  backend_->synchronise();
  const BackendCounters before = backend_->counters();
  for (const auto& out : outs) launch(*a, 0, *out, 0, 64, 1);
  EXPECT_EQ((backend_->counters() - before).barriers, 0u);
  for (const auto& out : outs) EXPECT_EQ(read(*out)[63], 64u);
}

TEST_F(OpsBackend, CopiesOnlyWhatIsReadElsewhere) {
  const auto a = make(Numbers(1 << 16, 5));
  const auto b = std::make_shared<Storage>(4 << 16);
  const BackendCounters before = backend_->counters();
  for (int k = 0; k < 3; ++k) launch(*a, 0, *b, 0, 1 << 16, 1);
  EXPECT_EQ((backend_->counters() - before).bytes_up, 4u << 16);
  EXPECT_TRUE(a->resident_on(*backend_));
  EXPECT_TRUE(a->resident_on(*cpu_backend()));
  EXPECT_TRUE(b->resident_on(*backend_));
  EXPECT_EQ(read(*b)[1], 6u);
  EXPECT_EQ(read(*b)[2], 7u);
  const std::uint64_t down = (backend_->counters() - before).bytes_down;
  // Nothing is copied if the host can access the device's memory, else one copy.
  EXPECT_EQ(down, backend_->facts().unified ? 0u : 4u << 16);
}

TEST_F(OpsBackend, TheListSaysWhatTheOpenDeviceSays) {
  const std::vector<DeviceFacts> list = list_devices();
  const auto listed = std::ranges::find(list, backend_->facts().name, &DeviceFacts::name);
  ASSERT_NE(listed, list.end());
  EXPECT_EQ(listed->unified, backend_->facts().unified);
  EXPECT_EQ(listed->kind, backend_->facts().kind);
  EXPECT_EQ(listed->float64, backend_->facts().float64);
}

TEST_F(OpsBackend, UnifiedMemoryIsWrittenAndReadWithoutACopy) {
  if (!backend_->facts().unified) GTEST_SKIP() << "the host does not reach this device's memory";
  auto a = std::make_shared<Storage>(4000), b = std::make_shared<Storage>(4000);
  a->place(Device(backend_));
  b->place(Device(backend_));
  const BackendCounters before = backend_->counters(), cpu = cpu_backend()->counters();
  const Numbers values(1000, 3);
  std::memcpy(a->write_host(false), values.data(), 4000);
  launch(*a, 0, *b, 0, 1000, 2);
  EXPECT_EQ(read(*b)[999], 6u + 999);
  // Writes again to memory that the device has just read.
  std::memset(a->write_host(false), 0, 4000);
  launch(*a, 0, *b, 0, 1000, 2);
  EXPECT_EQ(read(*b)[999], 999u);
  const BackendCounters used = backend_->counters() - before;
  EXPECT_EQ(used.bytes_up, 0u);
  EXPECT_EQ(used.bytes_down, 0u);
  EXPECT_EQ(cpu_backend()->counters().bytes_in_use, cpu.bytes_in_use);
}

TEST_F(OpsBackend, GuardZonesSeeWhatIsWrittenBeside) {
  for (const std::uint32_t beyond : {0u, 1u, 2u}) {
    set_guard_zones(256);
    const auto a = make(Numbers(64, 1));
    auto b = std::make_shared<Storage>(4 * 64, "guarded");
    launch(*a, 0, *b, 0, 64, 1, beyond);
    EXPECT_EQ(read(*b)[3], 4u);
    const std::vector<std::string> found = check_guard_zones();
    set_guard_zones(0);
    if (beyond == 0) {
      EXPECT_TRUE(found.empty()) << found.front();
      continue;
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find(beyond == 1 ? "behind: byte 0 was written"
                                        : "in front: byte 252 was written"),
              std::string::npos)
        << found[0];
  }
}

TEST_F(OpsBackend, MemoryInFlightStaysAlive) {
  const auto a = make(Numbers(1 << 12, 1));
  auto sum = std::make_shared<Storage>(4 << 12);
  for (int k = 0; k < 200; ++k) {
    Storage between(4 << 12);
    launch(*a, 0, between, 0, 1 << 12, 1);
    launch(between, 0, *sum, 0, 1 << 12, 1);
  }
  EXPECT_EQ(read(*sum)[10], 21u);
  backend_->synchronise();
  const std::uint64_t bytes = backend_->counters().bytes_in_use;
  sum = nullptr;
  EXPECT_LE(backend_->counters().bytes_in_use, bytes);
}

TEST_F(OpsBackend, RoutesByPlacementAndMeasures) {
  const std::vector<std::shared_ptr<Storage>> in = {make(Numbers(4096, 2))},
                                              out = {std::make_shared<Storage>(4 * 4096)};
  bool cpu = false;
  const OpCall call{.op = Operation::Map,
                    .kernel = scale().hash,
                    .size = 4096,
                    .work = {4096, 4 * 4096, 4 * 4096},
                    .inputs = in,
                    .outputs = out,
                    .on_cpu = [&] { cpu = true; },
                    .on_device = [&](OpBackend&) { launch(*in[0], 0, *out[0], 0, 4096, 2); }};
  ExecutionStats stats;
  run(call, {.device = Device::vulkan(), .stats = &stats});
  EXPECT_FALSE(cpu);
  EXPECT_EQ(stats.device, backend_->facts().name);
  EXPECT_GT(stats.times.kernel, 0);
  EXPECT_EQ(stats.decision.reason, runtime::hybrid::Reason::forced);
  EXPECT_EQ(read(*out[0])[5], 9u);

  in[0]->place(Device::vulkan());
  run(call, {});
  EXPECT_FALSE(cpu);
  ASSERT_TRUE(out[0]->placed());
  EXPECT_EQ(*out[0]->placed(), Device::vulkan());
  in[0]->place(Device::cpu());
  run(call, {});
  EXPECT_TRUE(cpu);
}

TEST_F(OpsBackend, SaysWhatDoesNotFit) {
  const auto a = make(Numbers(16));
  const Argument outside[] = {{a->read_on(*backend_), 8, 64, 4, Access::read},
                              {a->read_on(*backend_), 0, 4, 4, Access::write}};
  const std::uint32_t words[] = {1, 1, 0};
  try {
    backend_->launch({.kernel = &scale(), .arguments = outside, .words = words});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(),
                 "kernel \"test_scale\": argument 0: bytes 8 + 64 do not lie in its 64 bytes");
  }
  try {
    backend_->launch({.kernel = &scale(), .arguments = outside, .words = {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "kernel \"test_scale\": expected 2 arguments and 3 words, got 2 and 0");
  }
  const ComputeKernel broken = make_kernel({.name = "test_broken", .body = "not GLSL;"});
  try {
    backend_->prepare(broken);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ShaderCompile);
  }
}

}  // namespace
}  // namespace topograd::ops
