// Where operations run that nobody placed: on a device that is admitted, back on the CPU when it
// fails, and with what is there already in the account.
#include "support/validation.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/ops/arrays.hpp>
#include <topograd/ops/lessons.hpp>
#include <topograd/ops/run.hpp>
#include <topograd/ops/scope.hpp>
#include <topograd/ops/tensors.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>
#include <set>

namespace topograd::ops {
namespace {

using runtime::hybrid::Reason;

constexpr std::uint64_t kCount = 100'000;

class OpsRouting : public test::VulkanTest {
 protected:
  void SetUp() override {
    // Before the executor reads it: the device of tests may be software.
    ::setenv("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1", 1);
    VulkanTest::SetUp();
    if (device_) name_ = Device::vulkan().name();
  }
  static Array<float> ramp() {
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), 1.0f);
    return Array<float>(values);
  }
  std::string name_;
};

/// An operation that no other is like, whose device side does what the test says.
struct Odd {
  Array<float> x, y = Array<float>(kCount);
  ir::Hash128 kernel;
  std::function<void(Backend&)> on_device;
  int cpu_runs = 0;

  ExecutionStats run(const OpOptions& options = {}) {
    const std::shared_ptr<Storage> in[] = {x.untyped().storage}, out[] = {y.untyped().storage};
    OpCall call{.op = Op::Map,
                .kernel = kernel,
                .size = kCount,
                .work = {kCount, 4 * kCount, 4 * kCount},
                .inputs = in,
                .outputs = out};
    call.on_cpu = [this] {
      ++cpu_runs;
      std::ranges::copy(x.read(), y.write().begin());
    };
    call.on_device = on_device;
    return ops::run(call, options);
  }
};

TEST_F(OpsRouting, NeighboursAreRankedWhereTheExecutorDecides) {
  const NearestIndex index(randn({1500, 32}, 1));
  RecordOperations record;
  index.search(randn({100, 32}, 2), 10).indices.values();
  std::vector<const RanOperation*> ran;
  for (const RanOperation& one : record.all())
    if (one.op == Op::Nearest) ran.push_back(&one);
  ASSERT_EQ(ran.size(), index.is_approximate() ? 2u : 1u);
  if (index.is_approximate()) {
    EXPECT_EQ(ran.front()->stats.device, "cpu");
    EXPECT_EQ(ran.front()->stats.decision.reason, Reason::forced);
  }
  const Reason reason = ran.back()->stats.decision.reason;
  EXPECT_TRUE(reason != Reason::forced && reason != Reason::below_minimum)
      << runtime::hybrid::name(reason);
  EXPECT_GT(measured(Op::Nearest).threshold, 0);
}

TEST_F(OpsRouting, LargeOperationsReachTheDevice) {
  const Array<float> x = ramp();
  ExecutionStats stats;
  const Array<float> y = map_to<float>(
      {.stats = &stats}, [](Value v) { return v * 3.0; }, x);
  EXPECT_EQ(stats.device, name_);
  EXPECT_TRUE(stats.decision.reason == Reason::unmeasured ||
              stats.decision.reason == Reason::guessed)
      << runtime::hybrid::name(stats.decision.reason);
  EXPECT_EQ(stats.bytes_up, 4 * kCount);
  EXPECT_TRUE(stats.fallback.empty());
  EXPECT_EQ(y.read()[kCount - 1], 3.0f * kCount);

  const Array<float> few({1, 2, 3});
  map_to<float>(
      {.stats = &stats}, [](Value v) { return v * 3.0; }, few);
  EXPECT_EQ(stats.device, "cpu");
  EXPECT_EQ(stats.decision.reason, Reason::below_minimum);
}

TEST_F(OpsRouting, WhatIsThereAlreadyIsNotUploaded) {
  const Array<float> other = ramp();
  // Not placed: made there because it was asked for, so the next operation is free to go anywhere.
  Array<float> there;
  for (int k = 0; k < 3; ++k) {  // the first compiles; the others tell what an upload takes
    there = map_to<float>(
        {.device = Device::vulkan()}, [](Value v) { return v + 1.0; }, ramp());
    Device::vulkan().synchronise();
  }
  const auto decide = [&](const Array<float>& x) {
    ExecutionStats stats;
    map_to<float>(
        {.stats = &stats}, [](Value v) { return v * v - 2.0; }, x);
    return stats;
  };
  const ExecutionStats resident = decide(there), fresh = decide(other);
  EXPECT_EQ(resident.device, name_);
  EXPECT_EQ(resident.bytes_up, 0u);
  EXPECT_EQ(resident.decision.on_device.terms.upload, 0);
  if (fresh.device == name_) {
    EXPECT_EQ(fresh.bytes_up, 4 * kCount);
  }
  EXPECT_GT(fresh.decision.on_device.terms.upload, 0);
}

TEST_F(OpsRouting, TheCpuTakesOverFromADeviceThatFails) {
  Odd odd{.x = ramp(), .kernel = {0x6f6464, 1}};
  odd.on_device = [](Backend&) { throw Error(ErrorCode::ShaderCompile, "odd: no such shader"); };
  const ExecutionStats first = odd.run();
  EXPECT_EQ(first.device, "cpu");
  EXPECT_EQ(first.fallback, "odd: no such shader");
  EXPECT_NE(first.decision.target, runtime::hybrid::kCpu);
  EXPECT_EQ(odd.cpu_runs, 1);
  EXPECT_EQ(odd.y.read()[kCount - 1], static_cast<float>(kCount));

  const ExecutionStats second = odd.run();  // known by now
  EXPECT_EQ(second.decision.reason, Reason::unsupported);
  EXPECT_TRUE(second.fallback.empty());
  EXPECT_EQ(odd.cpu_runs, 2);

  EXPECT_THROW(odd.run({.device = Device::vulkan()}), Error) << "asked for";
  EXPECT_EQ(odd.cpu_runs, 2);

  odd.kernel = {0x6f6464, 2};
  odd.on_device = [](Backend&) { throw Error(ErrorCode::Shape, "odd: a mistake of the caller"); };
  EXPECT_THROW(odd.run(), Error) << "the CPU would fail, too";
  EXPECT_EQ(odd.cpu_runs, 2);
}

TEST_F(OpsRouting, PlacedRunsTeachTheExecutor) {
  const OpMeasurement before = measured(Op::Scan);
  for (const Device& device : {Device::cpu(), Device::vulkan()}) {
    const Array<float> x = ramp().to(device);
    for (int k = 0; k < 4; ++k) {
      const Array<float> y = inclusive_scan(x);
      device.synchronise();  // times are told when the work has ended
    }
  }
  const OpMeasurement after = measured(Op::Scan);
  EXPECT_EQ(after.measured, before.measured + 1);
  EXPECT_GT(after.factor, 0);
}

TEST_F(OpsRouting, RunsUnlikeLaterOnesTeachNothing) {
  Odd odd{.x = ramp(), .kernel = {0x0dd, 71}};
  odd.on_device = [](Backend&) {};
  const auto lessons = [&] {
    const OpOptions cpu{.device = Device::cpu()};
    for (int k = 0; k < 8; ++k) odd.run(cpu);
    std::uint64_t count = 0;
    for (const auto& kernel : executor().scheduler().knowledge().kernels) {
      const auto found = kernel.targets.find("cpu");
      if (kernel.hash != odd.kernel || found == kernel.targets.end()) continue;
      for (const auto& row : found->second) count += row.count;
    }
    return count;
  };
  {
    const WithoutLessons scope;
    EXPECT_EQ(lessons(), 0u);
  }
  EXPECT_GT(lessons(), 0u);
}

TEST_F(OpsRouting, AScopeNamesTheDevice) {
  const Device vulkan = Device::vulkan();
  const Tensor a = randn({40, 24}, 1), b = randn({24, 72}, 2);
  const Tensor placed = a.to(vulkan), half = a.to(Type::f16).to(vulkan);
  const std::vector<double> want = matmul(a, b).values();
  const auto devices = [](const RecordOperations& record) {
    std::set<std::string> out;
    for (const RanOperation& ran : record.all()) out.insert(ran.stats.device);
    return out;
  };
  const auto expect_product = [&](const Tensor& got, double bound) {
    const std::vector<double> values = got.values();
    ASSERT_EQ(values.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(values[k], want[k], bound);
  };
  {
    const OnDevice scope(vulkan);
    const RecordOperations record;
    expect_product(matmul(a, b), 1e-4);
    EXPECT_EQ(devices(record), std::set<std::string>{name_});
    const OnDevice inner(Device::cpu());
    const RecordOperations on_cpu;
    expect_product(matmul(placed, b.to(vulkan)), 1e-4);
    expect_product(matmul(half, b.to(Type::f16).to(vulkan)), 0.05);
    EXPECT_GT(sum(exp(placed)).item(), 0);
    sum(Array<float>({1, 2}).to(vulkan)).item();
    EXPECT_EQ(devices(on_cpu), std::set<std::string>{"cpu"});
  }
  const RecordOperations after;
  const Tensor product = matmul(placed, b.to(vulkan));
  EXPECT_EQ(product.placed(), vulkan);
  product.evaluate();
  EXPECT_EQ(devices(after), std::set<std::string>{name_});
  for (const RanOperation& ran : after.all()) EXPECT_GT(ran.stats.times.kernel, 0);
}

TEST_F(OpsRouting, OneSpanIsTimedAtATime) {
  const std::shared_ptr<Backend> backend = Device::vulkan().shared_backend();
  ASSERT_TRUE(backend->begin_timing());
  EXPECT_FALSE(backend->begin_timing());
  const Array<float> x = ramp().to(Device::vulkan());
  ExecutionStats stats;
  map_to<float>(
      {.device = Device::vulkan(), .stats = &stats}, [](Value v) { return -v; }, x);
  EXPECT_GT(stats.times.kernel, 0) << "by the host's clock";
  std::optional<double> told;
  backend->end_timing([&](std::optional<double> us) { told = us; });
  backend->synchronise();
  EXPECT_GT(told.value_or(0), 0) << "of all that was queued since then";
}

TEST_F(OpsRouting, WhatThrowsOnTheCpuLeavesNoLoad) {
  Odd odd{.x = ramp(), .kernel = {0x6f6464, 3}};  // no device can do it
  for (int k = 0; k < 4; ++k) odd.run();
  const std::shared_ptr<Storage> in[] = {odd.x.untyped().storage};
  OpCall call{.op = Op::Map,
              .kernel = odd.kernel,
              .size = kCount,
              .work = {kCount, 4 * kCount, 0},
              .inputs = in};
  call.on_cpu = [] { throw std::bad_alloc(); };
  EXPECT_THROW(ops::run(call, {}), std::bad_alloc);
  EXPECT_EQ(executor().scheduler().targets()[runtime::hybrid::kCpu].queued_us, 0);
}

/// In a process of its own, whose executor reads the variable. 0 if the test says so.
[[noreturn]] void leave(const char* variable, const char* text, bool (*right)()) {
  ::setenv("TOPOGRAD_HYBRID_STATE", "none", 1);
  ::setenv(variable, text, 1);
  std::_Exit(right() ? 0 : 3);
}

ExecutionStats stats_of_sum(std::uint64_t count) {
  ExecutionStats stats;
  sum(Array<float>::full(count, 1), {.stats = &stats});
  return stats;
}

TEST_F(OpsRouting, ForcedByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // children start anew
  const auto on_device = [] {
    for (const std::uint64_t count : {2u, 100'000u}) {
      const ExecutionStats stats = stats_of_sum(count);
      if (stats.device == "cpu" || stats.decision.reason != Reason::forced) return false;
    }
    const auto states = executor().scheduler().targets();
    return std::ranges::all_of(states, [](const auto& s) { return s.queued_us == 0; });
  };
  EXPECT_EXIT(leave("TOPOGRAD_HYBRID_FORCE", "device", on_device), testing::ExitedWithCode(0), "");
  const auto refused = [] {
    try {
      ::setenv("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "0", 1);
      return stats_of_sum(2).device != "cpu";
    } catch (const Error& error) {
      return error.code() == ErrorCode::NoDevice;
    }
  };
  EXPECT_EXIT(leave("TOPOGRAD_HYBRID_FORCE", "device", refused), testing::ExitedWithCode(0), "");
  const auto on_cpu = [] {
    return stats_of_sum(100'000).decision.reason == Reason::forced &&
           executor().statistics("reduce", "cpu").tasks == 1;
  };
  EXPECT_EXIT(leave("TOPOGRAD_HYBRID_FORCE", "cpu", on_cpu), testing::ExitedWithCode(0), "");
}

TEST_F(OpsRouting, AMinimumOfTheUsersHoldsWhatWasMeasured) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stays = [] {
    for (const Device& device : {Device::cpu(), Device::vulkan()}) {
      const Array<float> x = ramp().to(device);
      for (int k = 0; k < 4; ++k) {
        sum(x);
        device.synchronise();
      }
    }
    return stats_of_sum(kCount).decision.reason == Reason::below_minimum;
  };
  EXPECT_EXIT(leave("TOPOGRAD_HYBRID_MIN_BATCH_OF", "reduce=200000", stays),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace topograd::ops
