// Steps by a factor on a device: compared with the host's, their bits, and refusals.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

class VulkanFactorSteps : public test::VulkanTest {};

SolverOptions options_for(FactorPlace place, Precision precision = Precision::f64) {
  return {.backend = Backend::vulkan,
          .precision = precision,
          .linear_solver = LinearSolver::cholesky,
          .max_iterations = 12,
          .function_tolerance = 1e-14,
          .factor = place,
          .deterministic = true};
}

void expect_on_device(const Summary& summary) {
  EXPECT_EQ(summary.linear_solver, LinearSolver::cholesky) << summary.full_report();
  EXPECT_EQ(summary.factor, FactorPlace::device) << summary.full_report();
  EXPECT_EQ(summary.kernels_on_cpu, 0u);
  const auto predicted = static_cast<double>(summary.predicted_factor_bytes);
  EXPECT_GT(predicted, 0);
  EXPECT_NEAR(static_cast<double>(summary.factor_bytes), predicted, 0.02 * predicted);
}

/// Both make the same steps; the exact ones of a factor, so that precision alone tells them apart.
template <class Make>
void expect_steps_of_host(const Make& make, const std::vector<Precision>& precisions) {
  for (const Precision precision : precisions) {
    SCOPED_TRACE(codegen::name(precision));
    const auto there = make(), here = make();
    SolverOptions options = options_for(FactorPlace::device, precision);
    const Summary device = solve(there->problem, options);
    expect_on_device(device);
    options.factor = FactorPlace::host;
    const Summary host = solve(here->problem, options);
    EXPECT_EQ(host.factor, FactorPlace::host);
    const double bound = precision == Precision::f32     ? 2e-4
                         : precision == Precision::mixed ? 2e-5
                                                         : 1e-9;
    EXPECT_NEAR(device.final_cost, host.final_cost,
                bound * host.final_cost + 1e-12 * host.initial_cost);
    ASSERT_GT(std::min(device.iterations.size(), host.iterations.size()), 2u);
    for (std::size_t k = 1; k < 3; ++k) {
      EXPECT_NEAR(device.iterations[k].step_norm, host.iterations[k].step_norm,
                  bound * host.iterations[k].step_norm);
      EXPECT_EQ(device.iterations[k].linear_iterations, 0);
    }
  }
}

std::vector<Precision> all_precisions() {
  if (!test::tested_features().float64) return {Precision::f32};
  return {Precision::f64, Precision::mixed, Precision::f32};
}

TEST_F(VulkanFactorSteps, AreThoseOfTheHost) {
  expect_steps_of_host([] { return problems::arap(problems::icosphere(2)); }, all_precisions());
  expect_steps_of_host([] { return problems::springs(20); }, all_precisions());
  expect_steps_of_host(
      [] {
        return problems::bundle({.cameras = 4, .points = 30, .observations = 100, .noise = 0.5});
      },
      test::tested_features().float64 ? std::vector{Precision::f64} : std::vector<Precision>{});
}

TEST_F(VulkanFactorSteps, HaveTheSameBitsInEveryRun) {
  const SolverOptions options = options_for(FactorPlace::device, all_precisions().front());
  const auto first = problems::arap(problems::icosphere(2));
  const Summary expected = solve(first->problem, options);
  for (int run = 0; run < 5; ++run) {
    const auto again = problems::arap(problems::icosphere(2));
    const Summary summary = solve(again->problem, options);
    ASSERT_EQ(summary.iterations.size(), expected.iterations.size());
    for (std::size_t k = 0; k < summary.iterations.size(); ++k) {
      EXPECT_EQ(summary.iterations[k].cost, expected.iterations[k].cost);
      EXPECT_EQ(summary.iterations[k].step_norm, expected.iterations[k].step_norm);
    }
  }
}

/// Naming the device selects cholesky.
TEST_F(VulkanFactorSteps, ChooseTheSolver) {
  SolverOptions options = options_for(FactorPlace::device, all_precisions().front());
  options.linear_solver = LinearSolver::automatic;
  const auto made = problems::springs(20);
  expect_on_device(solve(made->problem, options));
}

/// Only the sum of two unknowns is determined. The first damping is lost in the rounding of the
/// diagonal, so that the second pivot is exactly 0: one of both does not move.
TEST_F(VulkanFactorSteps, LeaveOutPivotsThatVanish) {
  std::vector<double> x(80, 1.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  for (std::size_t k = 0; k < p.size(); ++k) problem.add_residual(p(k, 0) + p(k, 1) - 3.0);
  SolverOptions options = options_for(FactorPlace::device, all_precisions().front());
  options.initial_trust_region_radius = options.max_trust_region_radius = 1e17;
  const Summary summary = solve(problem, options);
  expect_on_device(summary);
  EXPECT_EQ(summary.num_unsuccessful_steps, 0);
  EXPECT_LE(summary.final_cost, 1e-10 * summary.initial_cost);
  EXPECT_NE(summary.linear_solver_note.find(" pivots of the factors vanished"), std::string::npos)
      << summary.linear_solver_note;
  for (std::size_t k = 0; k < p.size(); ++k) {
    EXPECT_TRUE(x[2 * k] == 1.0 || x[2 * k + 1] == 1.0);
    EXPECT_NEAR(x[2 * k] + x[2 * k + 1], 3.0, 1e-5);
  }
}

TEST_F(VulkanFactorSteps, AreRefusedWhereNoDeviceCanMakeThem) {
  const Precision precision = all_precisions().front();
  const auto message = [&](const SolverOptions& options, bool bounded) {
    std::vector<double> x(80, 1.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x, 2);
    for (std::size_t k = 0; k < p.size(); ++k) problem.add_residual(p(k, 0) + 2.0 * p(k, 1) - 3.0);
    if (bounded) problem.set_bounds(p, 0, 0, -10.0, 10.0);
    try {
      solve(problem, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      return std::string(error.what());
    }
    return std::string();
  };
  SolverOptions options = options_for(FactorPlace::device, precision);
  options.method = Method::dogleg;
  EXPECT_EQ(
      message(options, true),
      "factor device: steps are made on the host (bounds, dogleg); use factor host or automatic");
  options.method = Method::levenberg_marquardt;
  options.linear_solver = LinearSolver::pcg;
  EXPECT_EQ(message(options, false),
            "factor device: the linear solver is pcg; use factor host or automatic");
  options.linear_solver = LinearSolver::cholesky;
  options.backend = Backend::cpu;
  EXPECT_EQ(message(options, false),
            "factor device: the backend is cpu (asked for); use factor host or automatic");
}

// Normal equations of columns that differ by 2e-8 have pivots that vanish in rounding.
TEST_F(VulkanFactorSteps, PivotsThatVanishedEndNoSolve) {
  const auto precisions = all_precisions();
  if (std::ranges::find(precisions, Precision::f64) == precisions.end())
    GTEST_SKIP() << "f32 cannot show 2e-8";
  constexpr std::size_t kPairs = 40;
  std::vector<double> x(2 * kPairs, 0.0);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < kPairs; ++k) {
    const Value u = unknowns[2 * k], v = unknowns[2 * k + 1];
    problem.add_residual(u + v - 1.0);
    problem.add_residual(u + v + 1.0);
    problem.add_residual(1e-8 * (u - v) - 3.0);
  }
  SolverOptions options = options_for(FactorPlace::device);
  options.function_tolerance = 1e-6;
  options.max_iterations = 25;
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.factor, FactorPlace::device);
  if (summary.termination == Termination::CONVERGENCE) {
    EXPECT_NEAR(summary.final_cost, 40, 1e-3);
  }
  EXPECT_LT(summary.final_cost, 217);
}

}  // namespace
}  // namespace topograd
