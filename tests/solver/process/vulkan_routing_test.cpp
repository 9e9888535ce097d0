// `automatic` through the executor of the process: an option admits the software device,
// measurements decide, and a failed device is not used for a while.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/session/session.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/solve_many.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

class VulkanRouting : public test::VulkanTest {
 protected:
  /// Failures of one test do not keep the next from the device by its rate of successes.
  static void SetUpTestSuite() {
    platform::set_environment("TOPOGRAD_HYBRID_MIN_SUCCESS_RATE", "0");
  }
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

/// Many decays of 3 unknowns, which one thread solves in some milliseconds.
struct Decays {
  explicit Decays(std::size_t count, int points = 20) : entries(points) {
    for (std::size_t k = 0; k < count; ++k) {
      const double rate = 0.5 + 0.0001 * static_cast<double>(k % 5000);
      for (int i = 0; i < entries; ++i) data.push_back(2 * std::exp(-rate * 0.2 * i) + 0.3);
      starts.insert(starts.end(), {1.5, 0.8, 0});
    }
  }
  ManySolver solver(const SolverOptions& options) const {
    return {3, {static_cast<std::size_t>(entries)}, rows, {}, options};
  }
  static std::vector<Value> rows(const One& one) {
    std::vector<Value> out;
    for (std::size_t i = 0; i < one.entries(0); ++i)
      out.push_back(one.x(0) * exp(-one.x(1) * (0.2 * static_cast<double>(i))) + one.x(2) -
                    one.data(0, i));
    return out;
  }
  /// Solves, with the components that the CPU alone finds.
  Summary solve(ManySolver& solver) const {
    std::vector<double> x = starts;
    const std::span<const double> all[] = {data};
    Summary summary = solver.solve(x, all);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    for (std::size_t k = 0; k < x.size(); k += 3) {
      const double rate = 0.5 + 0.0001 * static_cast<double>(k / 3 % 5000);
      EXPECT_NEAR(x[k], 2, 1e-5);
      EXPECT_NEAR(x[k + 1], rate, 1e-5);
      if (testing::Test::HasFailure()) break;
    }
    return summary;
  }

  /// The first solve of some in which the device takes part. Those before count for its kernel.
  Summary solve_until(ManySolver& solver, const char* why) const {
    Summary summary;
    for (int k = 0; k < 200; ++k) {
      summary = solve(solver);
      if (summary.why.find(why) != std::string::npos || testing::Test::HasFailure()) break;
    }
    EXPECT_NE(summary.why.find(why), std::string::npos) << summary.why;
    return summary;
  }

  int entries;
  std::vector<double> starts, data;
};

TEST_F(VulkanRouting, ComponentsTakeTheDeviceThatIsExpectedToBeFaster) {
  TG_NEEDS(float64);
  const Decays decays(4000);
  options_.function_tolerance = 1e-12;
  options_.threads = 1;
  add_short_solve(10);  // opening a device has paid
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    options_.precision = precision;
    ManySolver solver = decays.solver(options_);
    const Summary at_first = decays.solve(solver);
    EXPECT_EQ(at_first.backend, "cpu") << "one solve is not worth a kernel: " << at_first.why;
    EXPECT_GT(at_first.times.device_search_seconds, 0);
    const Summary first = decays.solve_until(solver, "; vulkan: ");
    EXPECT_EQ(first.backend, "vulkan") << first.why;
    EXPECT_EQ(first.precision, precision);
    EXPECT_GT(first.kernels_on_device, 0u);
    EXPECT_NE(first.why.find(" measured on the CPU, "), std::string::npos) << first.why;
    EXPECT_NE(first.why.find(" expected on \""), std::string::npos) << first.why;
    EXPECT_EQ(first.times.device_search_seconds, 0) << "it is known";
    // The second solve is measured, the first one made the kernel.
    const Summary second = decays.solve(solver);
    EXPECT_EQ(second.backend, "vulkan") << second.why;
    const Summary third = decays.solve(solver);
    EXPECT_NE(third.why.find(" measured on \""), std::string::npos) << third.why;
  }
  options_.deterministic = true;
  ManySolver fixed = decays.solver(options_);
  const Summary summary = decays.solve(fixed);
  EXPECT_EQ(summary.backend, "cpu") << "what was spent decides nothing: " << summary.why;
  EXPECT_EQ(summary.precision, Precision::f64);
}

TEST_F(VulkanRouting, SmallComponentsAreSolvedWithoutALookForDevices) {
  options_.fallback_threshold = std::nullopt;
  options_.components = Components::separate;
  for (const std::size_t count : {40UL, 100UL}) {
    const Decays decays(count);
    ManySolver solver = decays.solver(options_);
    const Summary summary = decays.solve(solver);
    EXPECT_EQ(summary.backend, "cpu");
    EXPECT_EQ(summary.times.device_search_seconds, 0);
    EXPECT_NE(summary.why.find(count == 40 ? "are below the threshold of 1024" : "too short for"),
              std::string::npos)
        << summary.why;
  }
}

TEST_F(VulkanRouting, ComponentsOfAProblemTakeTheDevice) {
  TG_NEEDS(float64);
  constexpr int kCount = 3000, kRows = 30;
  std::vector<double> x;
  Problem problem;
  for (int k = 0; k < kCount; ++k) x.insert(x.end(), {1.5, 0.8});
  const Parameters all = problem.add_parameters(std::span(x), 2);
  std::vector<double> numbers(kCount * kRows);
  for (int k = 0; k < kCount; ++k)
    for (int i = 0; i < kRows; ++i) numbers[k * kRows + i] = 2 * std::exp(-0.1 * i);
  for (int k = 0; k < kCount; ++k)
    for (int i = 0; i < kRows; ++i)
      problem.add_residual(all(k, 0) * exp(-all(k, 1) * (0.1 * i)) - numbers[k * kRows + i]);
  options_.threads = 1;
  const std::vector<double> start = x;
  options_.components = Components::separate;
  options_.backend = Backend::vulkan;
  EXPECT_EQ(solve(problem, options_).backend, "vulkan");  // makes the kernel
  x = start;
  options_.components = Components::automatic;
  options_.backend = Backend::automatic;
  const Summary summary = solve(problem, options_);
  EXPECT_TRUE(summary.components.separate);
  EXPECT_EQ(summary.backend, "vulkan") << summary.why;
  EXPECT_NE(summary.why.find("; vulkan: "), std::string::npos) << summary.why;
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  for (int k = 0; k < kCount; ++k) EXPECT_NEAR(x[2 * k], 2, 1e-5);
}

TEST_F(VulkanRouting, TheCpuSolvesForComponentsWhereTheDeviceFails) {
  TG_NEEDS(float64);
  const Decays decays(9000, 24);  // of which nothing was measured
  options_.threads = 1;
  options_.function_tolerance = 1e-12;
  add_short_solve(10);
  ManySolver solver = decays.solver(options_);
  constexpr std::int32_t kOutOfMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
  runtime::vulkan::open({})->inject_fault("vkQueueSubmit", 0, kOutOfMemory);
  const Summary failed = decays.solve_until(solver, "; cpu: the device failed: ");
  EXPECT_EQ(failed.backend, "cpu");
  const Summary next = decays.solve(solver);
  EXPECT_EQ(next.backend, "cpu");
  EXPECT_NE(next.why.find("too little memory"), std::string::npos) << next.why;
  // It says nothing of fewer.
  const Decays few(2000, 24);
  ManySolver other = few.solver(options_);
  EXPECT_EQ(few.solve_until(other, "; vulkan: ").backend, "vulkan");
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
