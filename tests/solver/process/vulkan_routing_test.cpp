// `automatic` through the executor of the process: an option admits the software device,
// measurements decide, and a failed device is not used for a while.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

class VulkanRouting : public test::VulkanTest {
 protected:
  void SetUp() override {
    test::VulkanTest::SetUp();
    if (IsSkipped()) return;
    platform::set_environment("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1");
    ASSERT_EQ(options_.backend, Backend::automatic);
    ASSERT_TRUE(options_.device.empty());
    options_.fallback_threshold = 0;
    if (!test::tested_features().float64) options_.precision = Precision::f32;
  }
  static std::uint64_t routed(hybrid::Reason reason) {
    std::uint64_t sum = 0;
    for (const auto& [key, n] : hybrid_executor().telemetry().counts().routing)
      sum += key.second == reason ? n : 0;
    return sum;
  }
  SolverOptions options_;
};

TEST_F(VulkanRouting, ASolveThatNamesItsBackendIsLoad) {
  const hybrid::Scheduler& scheduler = hybrid_executor().scheduler();
  options_.backend = Backend::cpu;
  solve(problems::springs(40)->problem, options_);  // measures a step
  double queued_us = 0;
  options_.callback = [&](const IterationSummary&) {
    queued_us = std::max(queued_us, scheduler.targets()[hybrid::kCpu].queued_us);
    return CallbackReturn::SOLVER_CONTINUE;
  };
  solve(problems::springs(40)->problem, options_);
  EXPECT_GT(queued_us, 0);
  EXPECT_EQ(scheduler.targets()[hybrid::kCpu].queued_us, 0);
}

TEST_F(VulkanRouting, AdmittedSoftwareReallyRuns) {
  const auto springs = problems::springs(12);
  const std::uint64_t before = routed(hybrid::Reason::unmeasured);
  Evaluator e(springs->problem, options_);
  const auto begin = std::chrono::steady_clock::now();
  while (e.backend() == "cpu" &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    e.cost();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(e.backend(), "vulkan") << e.why();
  EXPECT_GT(e.report().kernels_on_device, 0u);
  EXPECT_EQ(routed(hybrid::Reason::unmeasured), before + 1);
}

TEST_F(VulkanRouting, SmallProblemsAreCountedAndStayOnTheCpu) {
  const auto springs = problems::springs(4);
  options_.fallback_threshold = std::nullopt;
  const std::uint64_t before = routed(hybrid::Reason::below_minimum);
  const Summary summary = solve(springs->problem, options_);
  EXPECT_EQ(summary.backend, "cpu");
  EXPECT_NE(summary.why.find("are below the threshold of 1024"), std::string::npos) << summary.why;
  EXPECT_EQ(routed(hybrid::Reason::below_minimum), before + 1);
}

TEST_F(VulkanRouting, DecidesByWhatItMeasured) {
  options_.max_iterations = 8;
  options_.linear_solver = LinearSolver::pcg;
  double us[2] = {};
  for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
    for (int k = 0; k < 3; ++k) {
      const auto springs = problems::springs(24);
      SolverOptions forced = options_;
      forced.backend = backend;
      ASSERT_GE(solve(springs->problem, forced).num_iterations(), 3);
    }
  }
  const hybrid::Knowledge known = hybrid_executor().scheduler().knowledge();
  for (const hybrid::Knowledge::Kernel& kernel : known.kernels) {
    if (kernel.operation != "solve" || kernel.targets.size() < 2) continue;
    for (const auto& [target, rows] : kernel.targets) us[target == "cpu" ? 0 : 1] = rows[0].us;
  }
  ASSERT_GT(us[0], 0);
  ASSERT_GT(us[1], 0);
  const auto springs = problems::springs(24);
  const Summary summary = solve(springs->problem, options_);
  const double speed_up = us[0] / us[1];
  if (speed_up < 1) {
    EXPECT_EQ(summary.backend, "cpu");
    EXPECT_NE(summary.why.find("is slower here (speed-up"), std::string::npos) << summary.why;
  }
  if (speed_up > 1.6) {
    EXPECT_EQ(summary.why.find("cpu: \""), std::string::npos) << summary.why;
  }
  EXPECT_EQ(routed(hybrid::Reason::slower) + routed(hybrid::Reason::faster), 1u);
}

TEST_F(VulkanRouting, EvaluatorsTeachAndFollowWhatTheyTaught) {
  const auto springs = problems::springs(20);
  const auto hashes = [] {
    std::map<ir::Hash128, std::size_t> out;
    for (const hybrid::Knowledge::Kernel& kernel :
         hybrid_executor().scheduler().knowledge().kernels) {
      if (kernel.operation == "evaluate") out[kernel.hash] = kernel.targets.size();
    }
    return out;
  };
  for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
    SolverOptions forced = options_;
    forced.backend = backend;
    Evaluator e(springs->problem, forced);
    for (int k = 0; k < 8; ++k) {
      e.gradient();
      if (k < 2) e.cost();  // too few for a measurement
    }
  }
  const auto known = hashes();
  EXPECT_EQ(known.size(), 1u) << "the gradient alone";
  for (const auto& [hash, sides] : known) EXPECT_EQ(sides, 2u);
  const std::uint64_t before = routed(hybrid::Reason::slower) + routed(hybrid::Reason::faster);
  const Evaluator next(springs->problem, options_);
  EXPECT_EQ(routed(hybrid::Reason::slower) + routed(hybrid::Reason::faster), before + 1)
      << next.why();
}

TEST_F(VulkanRouting, DeterministicEvaluatorsTeachNothing) {
  const auto springs = problems::springs(18);
  options_.deterministic = true;
  const std::uint64_t before = hybrid_executor().scheduler().outcomes_learned();
  Evaluator e(springs->problem, options_);
  for (int k = 0; k < 8; ++k) e.gradient();
  EXPECT_EQ(hybrid_executor().scheduler().outcomes_learned(), before);
}

/// Change of the counters by one solve, on both sides.
struct Counted {
  hybrid::OperationStatistics cpu, device;
};

Counted counted() {
  const hybrid::Executor& executor = hybrid_executor();
  const auto all = executor.capabilities();
  Counted out{.cpu = executor.statistics("solve", "cpu"), .device = {}};
  if (all.size() > 1) out.device = executor.statistics("solve", all[1].name);
  return out;
}

TEST_F(VulkanRouting, EachSolveIsOneTaskWhereItRan) {
  int told = 0;
  hybrid::ExecutionStats last;
  hybrid_executor().set_observer(
      [&](std::string_view operation, std::uint64_t, const hybrid::ExecutionStats& stats) {
        if (operation != "solve") return;
        ++told;
        last = stats;
      });
  for (const Backend backend : {Backend::cpu, Backend::vulkan, Backend::automatic}) {
    for (const int steps : {1, 5}) {
      const auto springs = problems::springs(14);
      SolverOptions options = options_;
      options.backend = backend;
      options.max_iterations = steps;
      options.linear_solver = LinearSolver::pcg;
      Solver solver(springs->problem, options);
      for (int k = 0; k < 2; ++k) {  // the second one in the same session
        SCOPED_TRACE(std::string(name(backend)) + ", " + std::to_string(steps) + " steps, solve " +
                     std::to_string(k));
        const Counted before = counted();
        told = 0;
        const Summary summary = solver.solve();
        const Counted after = counted();
        const bool on_cpu = summary.backend == "cpu";
        EXPECT_EQ(after.cpu.tasks - before.cpu.tasks, on_cpu ? 1u : 0u);
        EXPECT_EQ(after.device.tasks - before.device.tasks, on_cpu ? 0u : 1u);
        EXPECT_EQ(after.device.failures, before.device.failures);
        const double seconds =
            after.cpu.seconds + after.device.seconds - before.cpu.seconds - before.device.seconds;
        EXPECT_NEAR(seconds, summary.times.total_seconds, 1e-6) << "all of it, not a step";
        const auto sum = [&](std::uint64_t hybrid::OperationStatistics::*count) {
          return after.cpu.*count + after.device.*count - before.cpu.*count - before.device.*count;
        };
        EXPECT_EQ(sum(&hybrid::OperationStatistics::bytes_up), summary.bytes_up);
        EXPECT_EQ(sum(&hybrid::OperationStatistics::bytes_down), summary.bytes_down);
        EXPECT_EQ(sum(&hybrid::OperationStatistics::cache_hits), summary.shader_cache_hits);
        EXPECT_EQ(last.bytes_up, summary.bytes_up);
        EXPECT_EQ(told, 1);
        EXPECT_EQ(last.device == "cpu", on_cpu) << last.device;
        EXPECT_NEAR(last.times.work(), 1e6 * summary.times.total_seconds, 1);
        if (backend != Backend::automatic) {
          EXPECT_EQ(on_cpu, backend == Backend::cpu);
          EXPECT_EQ(last.decision.reason, hybrid::Reason::forced);
        }
      }
    }
  }
  hybrid_executor().set_observer(nullptr);
}

TEST_F(VulkanRouting, AnEvaluatorIsOneTask) {
  const auto springs = problems::springs(14);
  const auto tasks = [] { return hybrid_executor().statistics("evaluate", "cpu"); };
  const hybrid::OperationStatistics before = tasks();
  options_.backend = Backend::cpu;
  {
    const Evaluator unused(springs->problem, options_);
    Evaluator e(springs->problem, options_);
    for (int k = 0; k < 5; ++k) e.cost();
  }
  EXPECT_EQ(tasks().tasks, before.tasks + 1);
  EXPECT_GT(tasks().seconds, before.seconds);
}

TEST_F(VulkanRouting, OutOfMemoryStopsProblemsOfThatSizeAlone) {
  const auto small = problems::springs(12), large = problems::springs(60);
  const SolverOptions options = resolved(options_);
  const DeviceFacts facts = probe_device(options);
  const auto asked = [&](problems::Springs& springs, const Error* failure) {
    const ProblemModel model = make_model("test", springs.problem);
    Route route(model, options, "test");
    route.consider(facts);
    const hybrid::Reason reason = route.ask(true, true).reason;
    if (failure) route.failed(*failure);
    return reason;
  };
  const Error full(ErrorCode::OutOfDeviceMemory, "full");
  asked(*large, &full);
  EXPECT_EQ(asked(*large, nullptr), hybrid::Reason::out_of_memory);
  EXPECT_NE(asked(*small, nullptr), hybrid::Reason::out_of_memory);
  const auto targets = hybrid_executor().scheduler().targets();
  EXPECT_EQ(targets.at(1).breaker, hybrid::BreakerState::closed);
}

TEST_F(VulkanRouting, DeviceThatFailedIsLeftAlone) {
  const auto springs = problems::springs(10);
  SolverOptions fixed = options_;
  fixed.deterministic = true;  // the device from the start, ignoring measurements
  Evaluator e(springs->problem, fixed);
  ASSERT_EQ(e.backend(), "vulkan") << e.why();
  const double cost = e.cost();
  constexpr std::int32_t kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST
  runtime::vulkan::open({})->inject_fault("vkQueueSubmit", 0, kDeviceLost);
  const double tolerance = options_.precision == Precision::f64 ? 1e-12 : 1e-5;
  EXPECT_NEAR(e.cost(), cost, tolerance * cost);
  EXPECT_EQ(e.backend(), "cpu");
  runtime::vulkan::release_devices();

  Evaluator next(springs->problem, options_);
  EXPECT_EQ(next.backend(), "cpu");
  EXPECT_NE(next.why().find("failed before and is left alone"), std::string::npos) << next.why();
  EXPECT_EQ(routed(hybrid::Reason::breaker_open), 1u);
  const auto targets = hybrid_executor().scheduler().targets();
  EXPECT_EQ(targets.at(1).breaker, hybrid::BreakerState::open);
  EXPECT_EQ(targets.at(1).breaker_openings, 1u);
}

}  // namespace
}  // namespace topograd
