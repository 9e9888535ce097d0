// Under `automatic` the interpreter is used while the device's kernels compile.
#include "../../support/validation.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../../../tools/problems/springs.hpp"

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kDelay{700};

/// Once the interpreter has made a step, the delay of compilers ends, and they get time.
CallbackReturn let_compile(const IterationSummary&) {
  runtime::vulkan::set_compile_delay(milliseconds(0));
  std::this_thread::sleep_for(milliseconds(80));
  return CallbackReturn::SOLVER_CONTINUE;
}

/// Compilers take as long as for large kernels.
class VulkanTiers : public test::VulkanTest {
 protected:
  void SetUp() override {
    test::VulkanTest::SetUp();
    if (!device_) return;
    const std::vector<runtime::vulkan::DeviceInfo> list = runtime::vulkan::devices();
    options_.device = std::to_string(runtime::vulkan::choose_device(list, {}));
    options_.fallback_threshold = 0;
    device_ = nullptr;
    runtime::vulkan::release_devices();  // and their kernels
    runtime::vulkan::set_compile_delay(kDelay);
  }
  void TearDown() override {
    runtime::vulkan::set_compile_delay(milliseconds(0));
    test::VulkanTest::TearDown();
  }
  SolverOptions options_;
};

TEST_F(VulkanTiers, TheFirstEvaluationNeverWaitsForACompiler) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(12);
  const Eigen::VectorXd want = Evaluator(springs->problem, {.backend = Backend::cpu}).gradient();
  Evaluator e(springs->problem, options_);
  const Clock::time_point begin = Clock::now();
  EXPECT_LE((e.gradient() - want).norm(), 1e-12 * want.norm());
  EXPECT_LT(Clock::now() - begin, kDelay);
  EXPECT_EQ(e.backend(), "cpu");
  EXPECT_EQ(e.why().find("cpu: serves until the device's kernels are compiled (vulkan: "), 0u)
      << e.why();

  double compiled = e.report().compile_wall_ms;
  Clock::time_point changed = Clock::now();
  while (e.backend() == "cpu" && Clock::now() - begin < std::chrono::seconds(60)) {
    EXPECT_LE((e.gradient() - want).norm(), 1e-12 * want.norm());
    const double now = e.report().compile_wall_ms;
    if (now != compiled) changed = Clock::now();
    compiled = now;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(e.backend(), "vulkan");
  EXPECT_LT(Clock::now() - changed, std::chrono::seconds(1));  // since the last kernel was ready
  EXPECT_LE((e.gradient() - want).norm(), 1e-12 * want.norm());
  EXPECT_NE(e.why().find("the interpreter served until the kernels were compiled"),
            std::string::npos)
      << e.why();
  const EvaluatorReport report = e.report();
  EXPECT_GT(report.kernels_on_cpu, 0u);
  EXPECT_GT(report.kernels_on_device, 0u);

  // Another kind of evaluation does not wait either.
  const Clock::time_point again = Clock::now();
  e.residuals();
  EXPECT_LT(Clock::now() - again, kDelay);
  EXPECT_EQ(e.backend(), "cpu");
}

TEST_F(VulkanTiers, ASolveMovesToTheDeviceBetweenSteps) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(12), peer = problems::springs(12);
  options_.linear_solver = LinearSolver::pcg;
  options_.max_iterations = 80;
  options_.function_tolerance = 0;  // does not end before the device is ready
  options_.gradient_tolerance = 0;
  options_.parameter_tolerance = 0;
  options_.preconditioner = Preconditioner::block_jacobi;
  options_.forcing_sequence = ForcingSequence::constant;  // loose steps differ by rounding
  options_.scale_free = false;                            // and so do less damped ones
  SolverOptions on_cpu = options_;
  on_cpu.backend = Backend::cpu;
  const Summary want = solve(peer->problem, on_cpu);
  options_.callback = let_compile;
  const Summary got = solve(springs->problem, options_);
  EXPECT_EQ(got.backend, "vulkan") << got.full_report();
  EXPECT_GT(got.kernels_on_cpu, 0u);
  EXPECT_GT(got.kernels_on_device, 0u);
  EXPECT_NE(got.why.find("the interpreter served until"), std::string::npos) << got.why;
  EXPECT_NEAR(got.final_cost, want.final_cost, 1e-6 * want.initial_cost);
}

// Vectors of descent and of means of gradients move with the kernels.
TEST_F(VulkanTiers, StepsAlongGradientsMoveToTheDevice) {
  TG_NEEDS(float64);
  for (const Method method : {Method::lbfgs, Method::adam}) {
    SCOPED_TRACE(name(method));
    const auto springs = problems::springs(12), peer = problems::springs(12);
    SolverOptions options = options_;
    options.method = method;
    options.max_iterations = 60;
    options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 0;
    options.first_order.learning_rate = 0.01;
    SolverOptions on_cpu = options;
    on_cpu.backend = Backend::cpu;
    const Summary want = solve(peer->problem, on_cpu);
    runtime::vulkan::release_devices();
    runtime::vulkan::set_compile_delay(kDelay);
    options.callback = let_compile;
    const Summary got = solve(springs->problem, options);
    EXPECT_EQ(got.backend, "vulkan") << got.full_report();
    EXPECT_GT(got.kernels_on_cpu, 0u) << got.full_report() << history_table(got);
    EXPECT_GT(got.kernels_on_device, 0u);
    // The last steps move no vector.
    const std::size_t bytes = springs->x.size() * sizeof(double);
    EXPECT_LT(got.bytes_down, 40 * bytes);
    if (method == Method::adam) {
      for (std::size_t k = 0; k < want.iterations.size(); ++k)
        EXPECT_NEAR(got.iterations[k].cost, want.iterations[k].cost, 1e-9 * want.initial_cost) << k;
    } else {
      EXPECT_NEAR(got.final_cost, want.final_cost, 1e-3 * want.initial_cost);
    }
  }
}

TEST_F(VulkanTiers, ForcedAndDeterministicSolvesHaveOnePlace) {
  TG_NEEDS(float64);
  runtime::vulkan::set_compile_delay(milliseconds(20));
  for (const bool forced : {true, false}) {
    const auto springs = problems::springs(6);
    SolverOptions options = options_;
    options.linear_solver = LinearSolver::pcg;
    options.max_iterations = 1;
    if (forced) options.backend = Backend::vulkan;
    options.deterministic = !forced;
    const Summary summary = solve(springs->problem, options);
    EXPECT_EQ(summary.backend, "vulkan");
    EXPECT_EQ(summary.kernels_on_cpu, 0u) << summary.why;
  }
}

std::uint64_t fallbacks() {
  std::uint64_t sum = 0;
  for (const auto& [where, count] : hybrid_executor().telemetry().counts().fallbacks) sum += count;
  return sum;
}

TEST_F(VulkanTiers, ADeviceThatRefusesItsKernelsIsLetGo) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(12);
  Evaluator e(springs->problem, options_);
  runtime::vulkan::open({.device = options_.device})
      ->inject_fault("vkCreateComputePipelines", 0, -13, 1000);  // VK_ERROR_UNKNOWN
  const double cost = Evaluator(springs->problem, {.backend = Backend::cpu}).cost();
  const std::uint64_t before = fallbacks();
  for (int k = 0; k < 200; ++k) {
    EXPECT_NEAR(e.cost(), cost, 1e-12 * cost);
    if (e.why().find("could not make its kernels") != std::string::npos) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(e.why().find("cpu: the device could not make its kernels: "), 0u) << e.why();
  EXPECT_EQ(e.backend(), "cpu");
  EXPECT_EQ(fallbacks() - before, 1u);
  runtime::vulkan::release_devices();
}

TEST_F(VulkanTiers, AnEvaluationInFlightKeepsTheDeviceThatIsLetGo) {
  TG_NEEDS(float64);
  runtime::vulkan::set_compile_delay(milliseconds(0));
  // Another topology: routing remembers those that a device refused.
  const auto springs = problems::springs(12);
  const Parameters points = springs->problem.parameters(0);
  springs->problem.add_residual(square(points(0, 0)) - points(1, 0));
  const double cost = Evaluator(springs->problem, {.backend = Backend::cpu}).cost();
  Evaluator e(springs->problem, options_);
  for (int k = 0; k < 2000 && e.backend() != "vulkan"; ++k) {
    e.cost();
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_EQ(e.backend(), "vulkan") << e.why();
  Async<double> begun = e.cost_async(springs->x);
  runtime::vulkan::open({.device = options_.device})
      ->inject_fault("vkCreateComputePipelines", 0, -13, 1000);  // VK_ERROR_UNKNOWN
  const auto let_go = [&] { return e.why().find("could not make") != std::string::npos; };
  for (int k = 0; k < 2000 && !let_go(); ++k) {
    e.gradient();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(let_go()) << e.why();
  EXPECT_NEAR(begun.get(), cost, 1e-12 * cost);
  runtime::vulkan::release_devices();
}

}  // namespace
}  // namespace topograd
