// Quality of routing on a machine with known times.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "machine.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

struct Router {
  Machine machine;
  Scheduler scheduler;
  Trace trace;

  explicit Router(unsigned seed, double noise = 0, HybridOptions options = {})
      : machine(seed, noise), scheduler(std::move(options), machine.clock()) {
    scheduler.add_device({.name = "scripted"});
  }
  Trace run(int tasks) {
    Trace part;
    for (int k = 0; k < tasks; ++k) step(scheduler, machine, machine.random_task(), part);
    return part;
  }
};

void expect_good(const Trace& trace) {
  EXPECT_GE(trace.right_share(), 0.95);
  EXPECT_LE(trace.over_oracle(), 0.05);
  EXPECT_GT(trace.on_device, trace.tasks / 10) << "the trace is a mixed one";
  EXPECT_LT(trace.on_device, trace.tasks * 9 / 10);
}

TEST(Routing, RightRightAfterWarmingUp) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    for (const double noise : {0.0, 0.1, 0.2}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", noise " + std::to_string(noise));
      Router router(seed, noise);
      warm_up(router.scheduler, router.machine);
      expect_good(router.run(2000));
    }
  }
}

TEST(Routing, LearnsWithoutWarmingUp) {
  for (const unsigned seed : {4u, 5u, 6u}) {
    SCOPED_TRACE(seed);
    Router router(seed, 0.1);
    router.run(4000);
    expect_good(router.run(2000));
  }
}

TEST(Routing, ExploresAtMostOnceInSixtyFourAndNeverWithADeadline) {
  Router router(7, 0.1);
  router.run(6400);  // tries sides that seem near where they were never measured
  const Trace trace = router.run(6400);
  EXPECT_GT(trace.explored, 0u);
  EXPECT_LE(trace.explored, 100u);
  Router bound(7, 0.1);
  Trace part;
  for (int k = 0; k < 2000; ++k) {
    TaskShape task = bound.machine.random_task();
    task.deadline_us = 1e6;
    step(bound.scheduler, bound.machine, task, part);
  }
  EXPECT_EQ(part.explored, 0u);
}

TEST(Routing, NoFlappingUnderNoise) {
  // Sizes near the point at which both sides are equal.
  for (std::size_t kernel = 0; kernel < Machine::kKernels; ++kernel) {
    for (std::uint64_t size = 64; size < 1 << 20; size *= 2) {
      Router router(static_cast<unsigned>(8 + kernel), 0.2);
      warm_up(router.scheduler, router.machine);
      std::size_t before = 99;
      int changes = 0;
      for (int k = 0; k < 500; ++k) {
        const TaskShape task = router.machine.task(kernel, size);
        const Decision decision = step(router.scheduler, router.machine, task, router.trace);
        if (decision.reason == Reason::explored) continue;
        changes += before != 99 && decision.target != before ? 1 : 0;
        before = decision.target;
      }
      EXPECT_LE(changes, 2) << "kernel " << kernel << ", size " << size;
    }
  }
}

TEST(Routing, RecoversFromAStepWithinTwentyCalls) {
  for (std::size_t kernel = 1; kernel < Machine::kKernels; ++kernel) {
    SCOPED_TRACE(kernel);
    Router router(20, 0.1);
    warm_up(router.scheduler, router.machine);
    const TaskShape task = router.machine.task(kernel, 50000);
    for (int k = 0; k < 100; ++k) step(router.scheduler, router.machine, task, router.trace);
    router.machine.slowdown[1] = 200;  // the device is now shared with others
    int wrong = 0;
    for (int k = 0; k < 100; ++k)
      wrong += step(router.scheduler, router.machine, task, router.trace).target != kCpu ? 1 : 0;
    EXPECT_LE(wrong, 20);
  }
}

TEST(Routing, RecoversFromAStepInAMixedTrace) {
  Router router(21, 0.1);
  warm_up(router.scheduler, router.machine);
  router.run(1000);
  router.machine.slowdown[1] = 50;
  router.run(40);
  const Trace after = router.run(1000);
  EXPECT_GE(after.right_share(), 0.95);
  EXPECT_LE(after.over_oracle(), 0.05);
}

TEST(Routing, DecisionsAreFast) {
  Router router(22);
  warm_up(router.scheduler, router.machine);
  std::vector<TaskShape> tasks;
  for (int k = 0; k < 1000; ++k) tasks.push_back(router.machine.random_task());
  double best_ns = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (const TaskShape& task : tasks) router.scheduler.cancel(router.scheduler.decide(task));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, took.count() / static_cast<double>(tasks.size()));
  }
  RecordProperty("decision_ns", std::to_string(best_ns));
#if defined(NDEBUG) && !defined(TOPOGRAD_SANITIZED)
  EXPECT_LE(best_ns, 1000);
#endif
}

}  // namespace
}  // namespace topograd::test
