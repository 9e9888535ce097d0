// Robust losses in the kernels: corrected residual, Jacobian and cost against hand formulas in long
// double, in both precisions; a robust fit.
#include "robust_cases.hpp"

#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace topograd::test {
namespace {

TEST(Robust, KernelsApplyTheCorrection) {
  for (const RobustCase& row : robust_cases()) {
    for (const Precision precision : {Precision::f64, Precision::f32}) {
      SCOPED_TRACE(row.name + (precision == Precision::f64 ? ", f64" : ", f32"));
      check_robust(row, {.backend = Backend::cpu, .precision = precision});
    }
  }
}

TEST(Robust, EvaluatorsCanLeaveLossesOut) {
  std::vector<double> values = {3, 0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  problem.add_residual({x[0] * x[1], x[1] + 2.0}, {.loss = cauchy(0.5)});
  Evaluator raw(problem, {.backend = Backend::cpu}, Losses::ignored);
  const Eigen::VectorXd r = raw.residuals();
  EXPECT_DOUBLE_EQ(r[0], 1.5);
  EXPECT_DOUBLE_EQ(r[1], 2.5);
  EXPECT_DOUBLE_EQ(raw.cost(), 0.5 * (1.5 * 1.5 + 2.5 * 2.5));
  const Evaluator::SparseMatrix jacobian = raw.jacobian();
  EXPECT_DOUBLE_EQ(jacobian.coeff(0, 0), 0.5);
  EXPECT_DOUBLE_EQ(jacobian.coeff(0, 1), 3);
}

TEST(Robust, OutliersDoNotPullALine) {
  // y = 2 x + 1 except for three of forty points.
  std::vector<double> line = {0, 0};
  Problem problem;
  const Parameters p = problem.add_parameters(line);
  std::vector<Residual> all;
  for (int k = 0; k < 40; ++k) {
    const double t = 0.1 * k, outlier = k % 15 == 7 ? 30 : 0;
    all.push_back(problem.add_residual(p[0] * t + p[1] - (2 * t + 1 + outlier)));
  }
  const SolverOptions options = {.backend = Backend::cpu, .function_tolerance = 1e-14};
  solve(problem, options);
  EXPECT_GT(std::hypot(line[0] - 2, line[1] - 1), 0.5);
  for (const Residual& r : all) problem.set_loss(r, tukey(3));
  line = {2.3, 0.8};
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_NEAR(line[0], 2, 1e-9);
  EXPECT_NEAR(line[1], 1, 1e-9);
  EXPECT_NEAR(summary.final_cost, 3 * 0.5 * 9.0 / 3, 1e-9) << "three outliers at a²/3";
}

}  // namespace
}  // namespace topograd::test
