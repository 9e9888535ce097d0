// Comparison of a solve with one whose steps are made on the host, step by step.
#include "step_walk.hpp"

#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::test {

SolverOptions exact_steps(SolverOptions options) {
  const bool factors = options.factor == FactorPlace::device;
  options.linear_solver = factors ? LinearSolver::cholesky : LinearSolver::pcg;
  options.max_iterations = 200;
  options.components = Components::together;  // one walk
  options.function_tolerance = 1e-14;
  options.gradient_tolerance = 1e-9;
  options.parameter_tolerance = 1e-13;
  options.linear_tolerance = 1e-12;
  options.max_linear_iterations = 2000;
  return options;
}

void expect_same_walk(const std::function<std::unique_ptr<OwnedProblem>()>& make,
                      const SolverOptions& options, const std::string& why, int most_steps) {
  const auto on_host = make(), on_engine = make();
  SolverOptions reference = exact_steps({.backend = Backend::cpu});
  reference.linear_solver = LinearSolver::cholesky;
  reference.max_iterations = most_steps;
  const Summary expected = solve(on_host->problem, reference);
  ASSERT_EQ(expected.linear_solver_note, "steps on the host: " + why);
  if (most_steps == 200) {
    EXPECT_EQ(expected.termination, Termination::CONVERGENCE);
  }
  SolverOptions engine_options = exact_steps(options);
  engine_options.max_iterations = most_steps;
  const Summary actual = solve(on_engine->problem, engine_options);
  EXPECT_EQ(actual.linear_solver, engine_options.linear_solver);
  if (options.factor == FactorPlace::device) {
    EXPECT_EQ(actual.factor, FactorPlace::device) << actual.full_report();
    for (const IterationSummary& step : actual.iterations) EXPECT_EQ(step.linear_iterations, 0);
  }
  EXPECT_EQ(actual.linear_solver_note.find("host"), std::string::npos) << actual.linear_solver_note;
  const bool narrow = options.precision == Precision::f32;
  EXPECT_NEAR(actual.final_cost, expected.final_cost, (narrow ? 1e-5 : 1e-9) * expected.final_cost);
  for (std::size_t k = 0; k < on_host->x.size(); ++k)
    EXPECT_NEAR(on_engine->x[k], on_host->x[k], narrow ? 3e-2 : 2e-4) << k;
  if (options.precision != Precision::f64) return;
  // Rounding decides the last steps.
  const std::size_t count = std::min(expected.iterations.size(), actual.iterations.size());
  for (std::size_t k = 0; k < count; ++k) {
    const IterationSummary &e = expected.iterations[k], &a = actual.iterations[k];
    if (std::fabs(e.cost_change) < 1e-7 * e.cost && k > 0) break;
    SCOPED_TRACE("step " + std::to_string(k));
    EXPECT_EQ(a.step_is_successful, e.step_is_successful);
    EXPECT_NEAR(a.cost, e.cost, 1e-6 * e.cost);
    EXPECT_NEAR(a.gradient_max_norm, e.gradient_max_norm, 1e-4 * e.gradient_max_norm + 1e-9);
    EXPECT_NEAR(a.step_norm, e.step_norm, 1e-4 * e.step_norm);
    EXPECT_NEAR(a.relative_decrease, e.relative_decrease, 1e-3);
  }
}

}  // namespace topograd::test
