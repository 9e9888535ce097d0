// Several solvers on several threads share one device, and a process may end in any order.
#include <gtest/gtest.h>

#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

SolverOptions on_device(Precision precision) {
  SolverOptions options{.backend = Backend::vulkan, .precision = precision};
  options.linear_solver = LinearSolver::pcg;
  options.max_iterations = 6;
  return options;
}

class VulkanThreads : public test::VulkanTest {
 protected:
  SolverOptions options() const {
    return on_device(test::tested_features().float64 ? Precision::f64 : Precision::f32);
  }
};

TEST_F(VulkanThreads, SolversShareADevice) {
  constexpr std::size_t kThreads = 4;
  constexpr int kSolves = 2;
  const auto width = [](std::size_t k) { return static_cast<std::uint32_t>(8 + 3 * (k / 2)); };
  std::vector<double> expected;
  for (std::size_t k = 0; k < kThreads; ++k) {
    const auto springs = problems::springs(width(k));
    expected.push_back(solve(springs->problem, options()).final_cost);
  }
  std::vector<std::vector<double>> costs(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      for (int n = 0; n < kSolves; ++n) {
        const auto springs = problems::springs(width(k));
        Evaluator evaluator(springs->problem, options());
        evaluator.gradient();
        costs[k].push_back(solve(springs->problem, options()).final_cost);
        evaluator.cost();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double tolerance = options().precision == Precision::f64 ? 1e-10 : 1e-5;
  for (std::size_t k = 0; k < kThreads; ++k) {
    ASSERT_EQ(costs[k].size(), static_cast<std::size_t>(kSolves));
    for (const double cost : costs[k]) EXPECT_NEAR(cost, expected[k], tolerance * expected[k]);
  }
}

// Objects that live until the end of the process, each from the first call on.
problems::Springs& held_springs() {
  static const auto springs = problems::springs(8);
  return *springs;
}
Solver& held_solver(const SolverOptions& options) {
  static Solver solver(held_springs().problem, options);
  return solver;
}
Evaluator& held_evaluator(const SolverOptions& options) {
  static Evaluator evaluator(held_springs().problem, options);
  return evaluator;
}
hybrid::Executor& held_executor() {
  static hybrid::Executor executor(hybrid::HybridOptions{.admit_software = true});
  return executor;
}

class Doubling final : public hybrid::Task {
 public:
  hybrid::TaskShape shape() const override {
    return {.kernel = {9, 9},
            .operation = "doubling",
            .size = numbers_.size(),
            .bytes_in = 4 * numbers_.size(),
            .bytes_out = 4 * numbers_.size(),
            .where = hybrid::Override::device};
  }
  void run_on_cpu(const hybrid::CpuThreads&, hybrid::Items) override { std::abort(); }
  std::optional<hybrid::DeviceProgram> program(hybrid::Items items) override {
    hybrid::DeviceProgram program{.name = "doubling", .glsl = kShader, .items = items.count()};
    program.arrays.push_back({.read = {std::as_bytes(std::span(numbers_))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(std::span(doubled_))}});
    return program;
  }
  bool right() const { return doubled_.front() == 2 && doubled_.back() == 2; }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i < items) y[i] = 2.0 * x[i];
}
)";
  std::vector<float> numbers_ = std::vector<float>(1000, 1.0f);
  std::vector<float> doubled_ = std::vector<float>(1000);
};

/// Makes the objects for the letters in their order, uses all of them, and exits: objects are
/// destroyed from the last one to the first. A Solver opens its device, and the process's executor,
/// at its first solve: it may be older than both.
[[noreturn]] void leave(const std::string& order, Precision precision) {
  const SolverOptions options = on_device(precision);
  held_springs();
  for (const char object : order) {
    if (object == 's') held_solver(options);
    if (object == 'e') held_evaluator(options);
    if (object == 'x') add_devices(held_executor(), options);
    if (object == 'h') hybrid_executor();
  }
  const double cost = held_solver(options).solve().final_cost;
  const double again = held_evaluator(options).cost();
  Doubling task;
  held_executor().execute(task);
  const bool right = std::abs(cost - again) <= 1e-5 * cost && task.right();
  std::exit(right ? 0 : 3);
}

TEST(VulkanExit, AnyOrderOfDestructionIsClean) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // children start anew
  const DeviceFacts facts = probe_device({});
  if (!facts.available) GTEST_SKIP() << facts.problem;
  const Precision precision = facts.float64 ? Precision::f64 : Precision::f32;
  for (const char* order :
       {"sex", "sxe", "esx", "exs", "xse", "xes", "shex", "hsex", "exsh", "xseh"}) {
    EXPECT_EXIT(leave(order, precision), testing::ExitedWithCode(0), "") << order;
  }
}

}  // namespace
}  // namespace topograd
