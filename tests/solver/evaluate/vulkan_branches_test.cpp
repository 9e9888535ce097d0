// Branches on a Vulkan device: detected there, traced again, evaluated again; nothing compiled
// twice.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>

#include "../../support/validation.hpp"
#include "branch_problems.hpp"

namespace topograd::test {
namespace {

using VulkanBranches = VulkanTest;

TEST_F(VulkanBranches, InstancesThatChangeSidesEndWhereSelectDoes) {
  for (const Precision precision : precisions()) {
    for (const LinearSolver linear : {LinearSolver::pcg, LinearSolver::cholesky}) {
      SCOPED_TRACE(std::string(codegen::name(precision)) + std::string(name(linear)));
      SidedSprings branching(40, -2.0, Written::by_if), selecting(40, -2.0, Written::by_select);
      const SolverOptions options{.backend = Backend::vulkan,
                                  .precision = precision,
                                  .linear_solver = linear,
                                  .max_iterations = 60,
                                  .function_tolerance = 1e-12};
      const Summary expected = solve(selecting.problem, options);
      const Summary actual = solve(branching.problem, options);
      const double tolerance = precision == Precision::f64 ? 1e-6 : 2e-3;
      EXPECT_GT(actual.num_retraces, 0u) << actual.full_report();
      EXPECT_LE(actual.num_retraces, actual.num_flips);
      EXPECT_NEAR(actual.final_cost, expected.final_cost, tolerance * expected.final_cost);
      for (std::size_t k = 0; k < branching.x.size(); ++k)
        EXPECT_NEAR(branching.x[k], selecting.x[k], 10 * tolerance) << k;
      EXPECT_EQ(actual.kernels_on_cpu, 0u);
    }
  }
}

// The kernels of both sides exist after the first solve: a second one compiles nothing.
TEST_F(VulkanBranches, KnownPathsAreNotCompiledAgain) {
  TG_NEEDS(float64);
  const SolverOptions options{.backend = Backend::vulkan};
  SidedSprings first(40, -2.0, Written::by_if), second(37, -2.0, Written::by_if);
  solve(first.problem, options);
  const Summary again = solve(second.problem, options);
  EXPECT_GT(again.num_retraces, 0u);
  EXPECT_EQ(again.shaders_compiled, 0u) << again.full_report();
}

TEST_F(VulkanBranches, EvaluationsAreRightAtEveryPoint) {
  TG_NEEDS(float64);
  SidedSprings branching(12, 0.0, Written::by_if), selecting(12, 0.0, Written::by_select);
  Evaluator a(branching.problem, {.backend = Backend::vulkan});
  Evaluator b(selecting.problem, {.backend = Backend::cpu});
  std::vector<double> direction(12, 0.25);
  for (int k = 0; k < 12; ++k) {
    std::vector<double> x(12);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = 2 * std::sin(1.7 * static_cast<double>(i) + 0.9 * k);
    switch (k % 6) {
      case 0: EXPECT_NEAR(a.cost(x), b.cost(x), 1e-10); break;
      case 1: EXPECT_LE((a.residuals(x) - b.residuals(x)).norm(), 1e-11); break;
      case 2: EXPECT_LE((a.gradient(x) - b.gradient(x)).norm(), 1e-10); break;
      case 3: EXPECT_LE((a.jacobian(x) - b.jacobian(x)).norm(), 1e-11); break;
      case 4: EXPECT_LE((a.jtjp(x, direction) - b.jtjp(x, direction)).norm(), 1e-10); break;
      case 5: EXPECT_LE((a.hvp(x, direction) - b.hvp(x, direction)).norm(), 1e-10); break;
    }
  }
}

TEST_F(VulkanBranches, WithoutACallableItIsAnErrorThatNamesTheResidual) {
  TG_NEEDS(float64);
  std::vector<double> x = {4.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Value a = p[0];
  if (a > 1.0) problem.add_residual(a * a + 0.1, {.label = "bowl"});
  try {
    solve(problem, {.backend = Backend::vulkan});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::StaleBranch);
    EXPECT_EQ(std::string(error.what()).substr(0, 47),
              "solve: if: a branch of residual \"bowl\" #0 (topo");
  }
  EXPECT_GT(x[0], 1.0);
  EXPECT_LT(x[0], 4.0);
}

TEST_F(VulkanBranches, NanDecidesAsInCpp) {
  TG_NEEDS(float64);
  std::vector<double> x = {1.0};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual([p]() -> Value {
    if (p[0] < 2.0) return Value(1.0) + 0.0 * min(p[0], 0.0);
    if (p[0] >= 2.0) return Value(2.0) + 0.0 * min(p[0], 0.0);
    return select(p[0] < 0.0, p[0], 3.0);
  });
  Evaluator evaluator(problem, {.backend = Backend::vulkan});
  EXPECT_EQ(evaluator.residuals()[0], 1);
  EXPECT_EQ(evaluator.residuals(std::vector<double>{2.0})[0], 2);
  EXPECT_EQ(evaluator.residuals(std::vector<double>{std::nan("")})[0], 3);
}

}  // namespace
}  // namespace topograd::test
