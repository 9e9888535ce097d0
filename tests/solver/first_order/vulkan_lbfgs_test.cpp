// L-BFGS on a Vulkan device, compared with the host.
#include <gtest/gtest.h>

#include "../../../codegen/vector/kernels.hpp"
#include "../../../frontend/manifold.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../support/validation.hpp"
#include "hanging.hpp"

namespace topograd::test {
namespace {

SolverOptions options_of(Backend backend, int most = 40) {
  return {.backend = backend,
          .method = Method::lbfgs,
          .max_iterations = most,
          .function_tolerance = 0,
          .gradient_tolerance = 0,
          .parameter_tolerance = 0};
}

class VulkanLbfgs : public VulkanTest {};

void expect_same_steps(const Summary& actual, const Summary& expected, double within) {
  ASSERT_EQ(actual.num_iterations(), expected.num_iterations());
  for (std::size_t k = 0; k < expected.iterations.size(); ++k) {
    const IterationSummary &e = expected.iterations[k], &a = actual.iterations[k];
    EXPECT_NEAR(a.cost, e.cost, within) << k;
    EXPECT_NEAR(a.step_norm, e.step_norm, within) << k;
    EXPECT_NEAR(a.gradient_norm, e.gradient_norm, 10 * within) << k;
    EXPECT_NEAR(a.gradient_max_norm, e.gradient_max_norm, 10 * within) << k;
    EXPECT_EQ(a.evaluations, e.evaluations) << k;
  }
}

TEST_F(VulkanLbfgs, StepsAreThoseOfTheHostsVectors) {
  TG_NEEDS(float64);
  for (const int rank : {1, 5, 20}) {
    SCOPED_TRACE(rank);
    Hanging on_cpu, on_device;
    SolverOptions options = options_of(Backend::cpu);
    options.max_lbfgs_rank = rank;
    const Summary expected = solve(on_cpu.problem, options);
    options.backend = Backend::vulkan;
    const Summary actual = solve(on_device.problem, options);
    expect_same_steps(actual, expected, 1e-7);
    EXPECT_LT(actual.final_cost, 0.9 * actual.initial_cost);
    EXPECT_EQ(actual.kernels_on_cpu, 0u);
    for (std::size_t k = 0; k < on_cpu.x.size(); ++k)
      EXPECT_NEAR(on_device.x[k], on_cpu.x[k], 1e-6) << k;
  }
}

TEST_F(VulkanLbfgs, ATrialIsOneSubmissionAndReturnsProductsAlone) {
  TG_NEEDS(float64);
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    SCOPED_TRACE(name(precision));
    Hanging few(400), many(400);
    SolverOptions options = options_of(Backend::vulkan, 5);
    options.precision = precision;
    options.max_lbfgs_rank = 4;
    const Summary short_solve = solve(few.problem, options);
    options.max_iterations = 20;
    const Summary long_solve = solve(many.problem, options);
    ASSERT_EQ(long_solve.num_iterations() - short_solve.num_iterations(), 15);
    std::uint64_t trials = 0;
    for (std::size_t k = 6; k <= 20; ++k)
      trials += static_cast<std::uint64_t>(long_solve.iterations[k].evaluations);
    const std::uint64_t submissions = long_solve.submissions - short_solve.submissions;
    EXPECT_GE(submissions, trials);
    EXPECT_LE(submissions, trials + 3);  // for a search that does not end at its last trial
    EXPECT_LE(long_solve.readbacks - short_solve.readbacks, 2 * submissions);
    EXPECT_LE(long_solve.bytes_down - short_solve.bytes_down,
              submissions * 8 * (codegen::kScalarCount + 3 * 10));
  }
}

TEST_F(VulkanLbfgs, AHistoryThatFitsNoRangeIsCutIntoPages) {
  TG_NEEDS(float64);
  Hanging whole(400), cut(400);
  SolverOptions options = options_of(Backend::vulkan, 30);
  const Summary expected = solve(whole.problem, options);
  options.restrictions.max_storage_buffer_range = 4 * 400 * 3 * 8;
  const Summary actual = solve(cut.problem, options);
  expect_same_steps(actual, expected, 1e-6);
}

TEST_F(VulkanLbfgs, InF32ItComesAsNear) {
  Hanging wide, narrow;
  const Summary expected = solve(wide.problem, options_of(Backend::cpu, 60));
  SolverOptions options = options_of(Backend::vulkan, 60);
  options.precision = Precision::f32;
  const Summary actual = solve(narrow.problem, options);
  EXPECT_NEAR(actual.final_cost, expected.final_cost,
              1e-4 * (expected.initial_cost - expected.final_cost));
}

// Steps on manifolds are the host's: there is nothing of the device's own to prepare.
TEST_F(VulkanLbfgs, ProblemsOnManifoldsAreWarmedUp) {
  TG_NEEDS(float64);
  std::vector<double> x = {0.6, 0, 0.8};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  problem.set_manifold(p, Manifold::sphere(3));
  problem.add_energy(square(p(0, 0) - 1.0) + 2.0 * square(p(0, 1)) + 3.0 * square(p(0, 2)));
  const SolverOptions options = {.backend = Backend::vulkan, .method = Method::lbfgs};
  warm_up(problem, options);
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_NEAR(x[0], 1, 1e-4);
}

TEST_F(VulkanLbfgs, AnExceptionInACallbackLeavesTheLastPoint) {
  TG_NEEDS(float64);
  Hanging thrown, stopped;
  SolverOptions options = options_of(Backend::vulkan, 7);
  solve(stopped.problem, options);
  options.callback = [](const IterationSummary& step) -> CallbackReturn {
    if (step.iteration == 7) throw std::runtime_error("enough");
    return CallbackReturn::SOLVER_CONTINUE;
  };
  EXPECT_THROW(solve(thrown.problem, options), std::runtime_error);
  EXPECT_EQ(thrown.x, stopped.x);
}

TEST_F(VulkanLbfgs, SolversGoOnAfterChanges) {
  TG_NEEDS(float64);
  Hanging kept;
  Solver solver(kept.problem, options_of(Backend::vulkan, 12));
  solver.solve();
  for (const int change : {0, 1}) {
    SCOPED_TRACE(change);
    Hanging fresh;
    if (change == 1) {
      kept.problem.set_constant(kept.points, 7);
      fresh.problem.set_constant(fresh.points, 7);
    }
    fresh.x = kept.x;
    const Summary expected = solve(fresh.problem, options_of(Backend::vulkan, 12));
    const Summary actual = solver.solve();
    EXPECT_EQ(actual.final_cost, expected.final_cost);
    EXPECT_EQ(kept.x, fresh.x);
  }
}

}  // namespace
}  // namespace topograd::test
