// Routing of operations without a given device: to an admitted device, back to the CPU after a
// failure, and with resident data in the account.
#include "../support/validation.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../ops/arrays.hpp"
#include "../../ops/run/run.hpp"
#include "../../ops/tensors.hpp"
#include "../../runtime/hybrid/executor.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

using runtime::hybrid::Reason;

constexpr std::uint64_t kCount = 100'000;

class OpsRouting : public test::VulkanTest {
 protected:
  void SetUp() override {
    // Set before the executor reads it: the test device may be software.
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

/// A unique operation, whose device side does what the test says.
struct Odd {
  Array<float> x, y = Array<float>(kCount);
  ir::Hash128 kernel;
  std::function<void(OpBackend&)> on_device;
  int cpu_runs = 0;

  ExecutionStats run(const OpOptions& options = {}) {
    OpCall call{.op = Operation::Map,
                .kernel = kernel,
                .size = kCount,
                .work = {kCount, 4 * kCount, 4 * kCount},
                .inputs = {x.untyped().storage},
                .outputs = {y.untyped().storage}};
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
    if (one.op == Operation::Nearest) ran.push_back(&one);
  ASSERT_EQ(ran.size(), index.is_approximate() ? 2u : 1u);
  if (index.is_approximate()) {
    EXPECT_EQ(ran.front()->stats.device, "cpu");
    EXPECT_EQ(ran.front()->stats.decision.reason, Reason::forced);
  }
  const Reason reason = ran.back()->stats.decision.reason;
  EXPECT_TRUE(reason != Reason::forced && reason != Reason::below_minimum)
      << runtime::hybrid::name(reason);
  EXPECT_GT(measured(Operation::Nearest).threshold, 0);
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
  // Not placed: made there because it was requested, so the next operation may run anywhere.
  Array<float> there;
  for (int k = 0; k < 3; ++k) {  // the first compiles; the others measure an upload
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
  odd.on_device = [](OpBackend&) { throw Error(ErrorCode::ShaderCompile, "odd: no such shader"); };
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
  odd.on_device = [](OpBackend&) { throw Error(ErrorCode::Shape, "odd: a mistake of the caller"); };
  EXPECT_THROW(odd.run(), Error) << "the CPU would fail, too";
  EXPECT_EQ(odd.cpu_runs, 2);
}

TEST_F(OpsRouting, PlacedRunsTeachTheExecutor) {
  const OpMeasurement before = measured(Operation::Scan);
  for (const Device& device : {Device::cpu(), Device::vulkan()}) {
    const Array<float> x = ramp().to(device);
    for (int k = 0; k < 4; ++k) {
      const Array<float> y = inclusive_scan(x);
      device.synchronise();  // times are reported when the work has ended
    }
  }
  const OpMeasurement after = measured(Operation::Scan);
  EXPECT_EQ(after.measured, before.measured + 1);
  EXPECT_GT(after.factor, 0);
}

TEST_F(OpsRouting, RunsUnlikeLaterOnesTeachNothing) {
  Odd odd{.x = ramp(), .kernel = {0x0dd, 71}};
  odd.on_device = [](OpBackend&) {};
  const auto recorded = [&] {
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
    const UnrecordedRuns scope;
    EXPECT_EQ(recorded(), 0u);
  }
  EXPECT_GT(recorded(), 0u);
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
  const std::shared_ptr<OpBackend> backend = Device::vulkan().shared_backend();
  ASSERT_TRUE(backend->clock().begin());
  EXPECT_FALSE(backend->clock().begin());
  const Array<float> x = ramp().to(Device::vulkan());
  ExecutionStats stats;
  map_to<float>(
      {.device = Device::vulkan(), .stats = &stats}, [](Value v) { return -v; }, x);
  EXPECT_GT(stats.times.kernel, 0) << "by the host's clock";
  std::optional<double> told;
  backend->clock().end([&](std::optional<double> us) { told = us; });
  backend->synchronise();
  EXPECT_GT(told.value_or(0), 0) << "of all that was queued since then";
}

TEST_F(OpsRouting, WhatThrowsOnTheCpuLeavesNoLoad) {
  Odd odd{.x = ramp(), .kernel = {0x6f6464, 3}};  // no device supports it
  for (int k = 0; k < 4; ++k) odd.run();
  OpCall call{.op = Operation::Map,
              .kernel = odd.kernel,
              .size = kCount,
              .work = {kCount, 4 * kCount, 0},
              .inputs = {odd.x.untyped().storage}};
  call.on_cpu = [] { throw std::bad_alloc(); };
  EXPECT_THROW(ops::run(call, {}), std::bad_alloc);
  EXPECT_EQ(executor().scheduler().targets()[runtime::hybrid::kCpu].queued_us, 0);
}

/// Number of tasks of all operations, by device.
std::uint64_t tasks_on(const std::string& device) {
  std::uint64_t sum = 0;
  for (const auto& [key, statistics] : executor().telemetry().counts().operations)
    sum += key.second == device ? statistics.tasks : 0;
  return sum;
}

double median_us(const Device& device, const std::function<void()>& work) {
  const OnDevice scope(device);
  const UnrecordedRuns none;
  std::vector<double> us;
  for (int k = 0; k < 7; ++k) {
    const auto start = std::chrono::steady_clock::now();
    work();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                     .count());
  }
  return median(us);
}

TEST_F(OpsRouting, GoesWhereTheWholeWayIsFaster) {
  const auto numbers = [](std::uint64_t count) { return std::vector<float>(count, 0.5f); };
  struct Row {
    const char* name;
    std::function<void()> work;  // from the host to a result that is read
  };
  const Row rows[] = {
      {"a map of 20,000",
       [x = numbers(20'000)] {
         map([](Value v) { return v * 1.25 + 2.0; }, Array<float>(x)).read();
       }},
      {"a sum of 60,000", [x = numbers(60'000)] { sum(Array<float>(x)).item(); }},
      {"a product of 300",
       [x = numbers(90'000)] {
         const Tensor a = tensor(std::span<const float>(x), {300, 300});
         matmul(a, a).floats();
       }},
      {"three maps and a sum",
       [x = numbers(30'000)] {
         Array<float> y = map([](Value v) { return v * 1.5 - 1.0; }, Array<float>(x));
         y = map([](Value v) { return v * v + 1.0; }, y);
         sum(map([](Value v) { return v / 3.0; }, y)).item();
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const double cpu = median_us(Device::cpu(), row.work);
    const double device = median_us(Device::vulkan(), row.work);
    constexpr int kRuns = 40, kLate = 20;
    int on_cpu = 0;
    for (int k = 0; k < kRuns; ++k) {
      row.work();
      on_cpu += k >= kRuns - kLate && last_stats().device == "cpu" ? 1 : 0;
    }
    if (std::max(cpu, device) < 1.5 * std::min(cpu, device)) continue;  // either is right
    EXPECT_GE(cpu < device ? on_cpu : kLate - on_cpu, kLate - 1)
        << cpu << " µs on the CPU, " << device << " on the device, " << on_cpu << " of " << kLate
        << " on the CPU";
  }
}

TEST_F(OpsRouting, TheWayToTheDeviceAndBackIsLearned) {
  for (int k = 0; k < 8; ++k) {
    const OnDevice scope(Device::vulkan());
    map([](Value v) { return v * 0.125 + 7.0; }, ramp()).read();
  }
  const auto transfers = executor().scheduler().knowledge().transfers;
  const auto of_device = transfers.find(name_);
  ASSERT_NE(of_device, transfers.end());
  for (const char* part : {"operations_upload", "operations_read_back"}) {
    const auto found = of_device->second.find(part);
    ASSERT_NE(found, of_device->second.end()) << part;
    ASSERT_FALSE(found->second.empty()) << part;
    EXPECT_GT(found->second.back().us, 0) << part;
  }
}

TEST_F(OpsRouting, AStepOfTrainingIsPlacedAsOne) {
  const std::vector<float> pixels(128 * 64, 0.25f), classes(128 * 8, 0.125f);
  Tensor first = (randn({64, 96}, 1) * 0.1).evaluate().detach();
  Tensor second = (randn({96, 8}, 2) * 0.1).evaluate().detach();
  nn::Sgd optimizer({first.requires_grad(), second.requires_grad()}, {.rate = 1e-3});
  const auto step = [&] {
    const Tensor x = tensor(std::span<const float>(pixels), {128, 64});
    const Tensor y = tensor(std::span<const float>(classes), {128, 8});
    const Tensor loss = mean(square(matmul(relu(matmul(x, first)), second) - y));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item();
  };
  double loss = step();
  for (int k = 0; k < 24; ++k) step();
  int together = 0;
  constexpr int kSteps = 20;
  for (int k = 0; k < kSteps; ++k) {
    const std::uint64_t cpu = tasks_on("cpu"), device = tasks_on(name_);
    EXPECT_LT(step(), loss);
    Device::vulkan().synchronise();  // reports the work there
    const bool on_cpu = tasks_on("cpu") > cpu, on_device = tasks_on(name_) > device;
    EXPECT_TRUE(on_cpu || on_device);
    together += on_cpu != on_device ? 1 : 0;
  }
  EXPECT_GE(together, kSteps - 1);
}

TEST_F(OpsRouting, PlacedOperationsAreCounted) {
  const Array<float> x = ramp().to(Device::vulkan());
  sum(x).item();
  Device::vulkan().synchronise();
  const auto before = executor().statistics("reduce", name_);
  constexpr std::uint64_t kRuns = 30;
  for (std::uint64_t k = 0; k < kRuns; ++k) sum(x).item();
  Device::vulkan().synchronise();
  const auto after = executor().statistics("reduce", name_);
  EXPECT_EQ(after.tasks - before.tasks, kRuns);
  EXPECT_EQ(after.items - before.items, kRuns * kCount);
  EXPECT_GE(after.cache_hits - before.cache_hits, 2 * kRuns) << "the array and its kernels";
  EXPECT_EQ(after.bytes_down - before.bytes_down, 4 * kRuns);
  EXPECT_LT(after.duration.count() - before.duration.count(), kRuns) << "some are timed";
  EXPECT_GT(after.duration.count(), 0u);
}

TEST_F(OpsRouting, PlacedOperationsAreLoad) {
  const Array<float> x = ramp().to(Device::vulkan());
  const auto square = [&] { return map([](Value v) { return v * v - 11.0; }, x); };
  for (int k = 0; k < 20; ++k) square().read();
  Device::vulkan().synchronise();
  const std::size_t target = executor().find_device(name_);
  const auto queued = [&] { return executor().scheduler().targets().at(target).queued_us; };
  EXPECT_EQ(queued(), 0);
  std::vector<Array<float>> kept;
  for (int k = 0; k < 20; ++k) kept.push_back(square());
  EXPECT_GT(queued(), 0);
  Device::vulkan().synchronise();
  EXPECT_EQ(queued(), 0);
}

TEST_F(OpsRouting, ThereIsOneExecutor) {
  const Array<float> x = ramp().to(Device::vulkan());
  sum(x).item();
  EXPECT_EQ(&executor(), runtime::hybrid::process_executor().get());
  std::set<std::string> figures;
  for (const runtime::hybrid::Figure& figure : executor().figures()) {
    if (figure.value > 0) figures.insert(figure.name);
  }
  EXPECT_TRUE(figures.contains("topograd_pool_bytes"));
  EXPECT_TRUE(figures.contains("topograd_pipelines_total"));
  for (const auto& state : executor().scheduler().targets()) {
    if (state.target.name != name_) continue;
    ASSERT_TRUE(state.free_bytes);
    EXPECT_GT(*state.free_bytes, 0u);
  }
}

/// Runs in a separate process, whose executor reads the variable. Exits with 0 if `right` is true.
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
