// Tasks placed as one, transfers to a device and back, and the present load of a device.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "../../../runtime/hybrid/executor.hpp"
#include "../../../runtime/hybrid/routing/scheduler.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

/// An array operation.
TaskShape operation(std::uint64_t kernel, std::uint64_t size = 10'000) {
  return {.kernel = {7, kernel}, .operation = "map", .size = size, .queued = true};
}

struct Machine {
  double now = 0;
  std::optional<std::uint64_t> free;
  Scheduler scheduler;
  std::size_t device;

  explicit Machine(HybridOptions options = {})
      : scheduler(std::move(options), [this] { return now; }),
        device(scheduler.add_device({.name = "gpu"}, [this] { return free; })) {}

  void measure(const TaskShape& shape, std::size_t target, const Terms& times, int count = 6) {
    for (int k = 0; k < count; ++k)
      scheduler.record(shape, target, {.times = times, .bytes_up = shape.bytes_in});
  }
  Decision decide(const TaskShape& shape) {
    const Decision decision = scheduler.decide(shape);
    scheduler.cancel(decision);
    return decision;
  }
};

TEST(Together, TheWayThereAndBackCounts) {
  Machine m;
  TaskShape shape = operation(1);
  shape.bytes_in = shape.bytes_out = 40'000;
  m.measure(shape, kCpu, {.kernel = 250});
  m.measure(shape, m.device, {.upload = 30, .submit = 20, .kernel = 100});
  EXPECT_EQ(m.decide(shape).reason, Reason::faster);
  for (int k = 0; k < 6; ++k) m.scheduler.record_read_back(m.device, 40'000, 40'000, 380);
  const Decision decision = m.decide(shape);
  EXPECT_EQ(decision.reason, Reason::slower);
  EXPECT_NEAR(decision.on_device.terms.work(), 530, 1);
  shape.bytes_out = 0;  // nobody reads it
  EXPECT_EQ(m.decide(shape).reason, Reason::faster);

  TaskShape waiting = shape;  // a task that waits has a separate account
  waiting.queued = false;
  waiting.bytes_out = 40'000;
  EXPECT_EQ(m.decide(waiting).on_device.terms.read_back, 0);
}

TEST(Together, AReadWaitsForWhatWasSentBeforeIt) {
  Machine m;
  for (int k = 0; k < 6; ++k) {
    m.scheduler.record_read_back(m.device, 4'000, 4, 60);
    m.scheduler.record_read_back(m.device, 16'000'000, 4, 900);
  }
  TaskShape small = operation(1), large = operation(2);
  small.bytes_in = 4'000;
  large.bytes_in = 16'000'000;
  small.bytes_out = large.bytes_out = 4;
  const auto read_back = [&](const TaskShape& shape) {
    return m.scheduler.predict(shape, m.device).terms.read_back;
  };
  EXPECT_NEAR(read_back(small), 60, 1);
  EXPECT_NEAR(read_back(large), 900, 1);
  // In a chain, also for data of earlier operations.
  TaskShape last = operation(3);
  last.bytes_out = 4;
  large.bytes_out = 0;
  const TaskShape chain[] = {large, last};
  EXPECT_NEAR(m.scheduler.place(chain).on_device.terms.read_back, 900, 1);
}

TEST(Together, SubmissionOfQueuedWorkIsAPartOfItsKernel) {
  Machine m;
  m.measure(operation(1), m.device, {.submit = 90, .kernel = 100});
  m.measure(operation(2), m.device, {.submit = 2, .kernel = 10});
  EXPECT_NEAR(m.decide(operation(1)).on_device.terms.work(), 190, 1);
  EXPECT_NEAR(m.decide(operation(2)).on_device.terms.work(), 12, 1);
}

TEST(Together, WhatLiesOnTheDeviceHasToBeReadByTheCpu) {
  Machine m;
  TaskShape shape = operation(1);
  shape.bytes_in = 40'000;
  m.measure(shape, kCpu, {.kernel = 50});
  m.measure(shape, m.device, {.submit = 10, .kernel = 100});
  for (int k = 0; k < 6; ++k) m.scheduler.record_read_back(m.device, 0, 40'000, 380);
  EXPECT_EQ(m.decide(shape).target, kCpu);
  const std::array<std::uint64_t, 2> resident = {0, 40'000};
  shape.resident = resident;
  shape.bytes_away = 40'000;
  shape.away_on = m.device;
  const Decision decision = m.decide(shape);
  EXPECT_EQ(decision.target, m.device);
  EXPECT_NEAR(decision.on_cpu.terms.read_back, 380, 1);
  EXPECT_EQ(decision.on_device.terms.upload, 0);
}

TEST(Together, AChainGoesWhereAllOfItIsFaster) {
  Machine m;
  std::vector<TaskShape> chain;
  for (std::uint64_t k = 0; k < 5; ++k) {
    chain.push_back(operation(k));
    m.measure(chain[k], kCpu, {.kernel = 130});
    m.measure(chain[k], m.device, {.submit = 5, .kernel = 40});
  }
  chain.front().bytes_in = 1'000'000;
  m.measure(chain.front(), m.device, {.upload = 200, .submit = 5, .kernel = 40});
  for (int k = 0; k < 6; ++k) m.scheduler.record_read_back(m.device, 1'000'000, 4, 60);
  chain.back().bytes_out = 4;
  EXPECT_EQ(m.decide(chain.front()).target, kCpu) << "alone, its upload costs more";
  const Decision all = m.scheduler.place(chain);
  EXPECT_EQ(all.target, m.device);
  EXPECT_EQ(all.reason, Reason::faster);
  EXPECT_NEAR(all.on_cpu.terms.work(), 650, 1);
  EXPECT_NEAR(all.on_device.terms.work(), 200 + 5 * 45 + 60, 1);
  EXPECT_EQ(all.reserved_us, 0);
  EXPECT_EQ(m.scheduler.targets()[m.device].queued_us, 0);

  const Decision one =
      m.scheduler.follow(chain[1], {.target = all.target, .reason = Reason::together});
  EXPECT_EQ(one.target, m.device);
  EXPECT_EQ(one.reason, Reason::together);
  EXPECT_NEAR(m.scheduler.targets()[m.device].queued_us, 45, 1);
  m.scheduler.record(chain[1], one, {.times = {.kernel = 40}});
  EXPECT_EQ(m.scheduler.targets()[m.device].queued_us, 0);

  chain.resize(2);
  EXPECT_EQ(m.scheduler.place(chain).target, kCpu) << "260 against 200 + 90";
}

TEST(Together, AChainThatADeviceCannotRunStaysOnTheCpu) {
  Machine m;
  std::vector<TaskShape> chain = {operation(1), operation(2)};
  chain[1].targets = 1;
  const Decision decision = m.scheduler.place(chain);
  EXPECT_EQ(decision.target, kCpu);
  EXPECT_EQ(decision.reason, Reason::unsupported);
}

TEST(Together, TheCpuIsTriedSoon) {
  Machine m;
  TaskShape shape = operation(1);
  m.measure(shape, m.device, {.kernel = 300});
  EXPECT_EQ(m.decide(shape).target, m.device) << "nobody says how long the CPU may take";
  shape.most_cpu_us = 4000;
  EXPECT_EQ(m.decide(shape).target, m.device) << "ten times as long is too long for a trial";
  shape.most_cpu_us = 250;
  EXPECT_EQ(m.decide(shape).target, kCpu);
  EXPECT_EQ(m.decide(shape).reason, Reason::unmeasured);
  m.measure(shape, kCpu, {.kernel = 7}, 2);
  EXPECT_EQ(m.decide(shape).reason, Reason::slower);

  Machine never({.explore_every = 0});
  never.measure(shape, never.device, {.kernel = 300});
  EXPECT_EQ(never.decide(shape).target, never.device);
}

TEST(Together, FirstThresholdsHoldUntilSomethingIsMeasured) {
  Machine m;
  TaskShape shape = operation(1, 5000);
  shape.first_threshold = 10'000;
  EXPECT_EQ(m.decide(shape).reason, Reason::below_threshold);
  EXPECT_EQ(m.scheduler.threshold("map", 10'000), 10'000);
  shape.size = 20'000;
  EXPECT_EQ(m.decide(shape).reason, Reason::unmeasured);
}

TEST(Together, FreeMemoryIsThatOfThisMoment) {
  Machine m;
  TaskShape shape = operation(1);
  shape.bytes_held = 1000;
  struct Row {
    std::optional<std::uint64_t> free;
    std::uint64_t there;
    bool goes;
  };
  const Row rows[] = {
      {std::nullopt, 0, true}, {1000, 0, true}, {999, 0, false}, {500, 600, true}, {2000, 0, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.free.value_or(0));
    m.now += 1;
    m.free = row.free;
    const std::array<std::uint64_t, 2> resident = {0, row.there};
    shape.resident = resident;
    const Decision decision = m.decide(shape);
    EXPECT_EQ(decision.target != kCpu, row.goes);
    if (!row.goes) {
      EXPECT_EQ(decision.reason, Reason::memory_limit);
    }
    EXPECT_EQ(m.scheduler.targets()[m.device].free_bytes, row.free);
  }
}

TEST(Together, ADeviceThatOthersLoadLosesTasksForAWhile) {
  Machine m;
  for (std::uint64_t kernel = 1; kernel <= 3; ++kernel) {
    m.measure(operation(kernel), kCpu, {.kernel = 100}, 12);
    m.measure(operation(kernel), m.device, {.kernel = 70}, 12);
  }
  EXPECT_EQ(m.decide(operation(1)).target, m.device);
  // Others use half of it: two of the kernels show it, the third has not run since.
  for (int k = 0; k < 3; ++k) {
    for (const std::uint64_t kernel : {1, 2}) {
      m.now += 0.01;
      m.scheduler.record(operation(kernel), m.device, {.times = {.kernel = 100}});
    }
  }
  EXPECT_NEAR(m.scheduler.targets()[m.device].load, 100.0 / 70, 0.05);
  EXPECT_EQ(m.decide(operation(3)).target, kCpu);
  EXPECT_NEAR(m.decide(operation(3)).on_device.terms.kernel, 100, 4);
  m.now += 3;
  EXPECT_EQ(m.scheduler.targets()[m.device].load, 1);
  EXPECT_NEAR(m.decide(operation(3)).on_device.terms.kernel, 70, 1);
}

TEST(Together, ReadsAreCountedWithWhatMadeThem) {
  Executor executor{HybridOptions{}};
  const std::size_t device =
      executor.target_of("gpu", [] { return make_unavailable_backend("gpu", "no such device"); });
  EXPECT_EQ(executor.target_of("gpu", []() -> std::unique_ptr<DeviceBackend> { return nullptr; }),
            device);
  const TaskShape shape = operation(1);
  const Decision there{.target = device, .device = device, .reason = Reason::forced};
  executor.outside_work().ran(shape, device, {.bytes_up = 8, .cache_hits = 2, .untimed = true},
                              there);
  executor.outside_work().ran(shape, device, {.times = {.kernel = 50}, .bytes_up = 8}, there);
  executor.outside_work().read_back("map", device, 0, 4000, 20.0);
  const OperationStatistics found = executor.statistics("map", "gpu");
  EXPECT_EQ(found.tasks, 2u);
  EXPECT_EQ(found.bytes_up, 16u);
  EXPECT_EQ(found.bytes_down, 4000u);
  EXPECT_EQ(found.cache_hits, 2u);
  EXPECT_EQ(found.duration.count(), 1u) << "what is not timed has no duration";
  EXPECT_NEAR(found.items_per_second(), 10'000 / 50e-6, 1);
  const std::string text = prometheus_text(executor);
  EXPECT_NE(text.find("topograd_cache_hits_total{operation=\"map\",device=\"gpu\"} 2"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("topograd_load_factor{device=\"gpu\"} 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace topograd::test
