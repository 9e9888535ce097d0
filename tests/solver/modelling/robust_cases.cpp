// Blocks under robust losses, by hand in long double.
#include "robust_cases.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <cmath>

namespace topograd::test {
namespace {

using Real = long double;
using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;

constexpr int kBlocks = 37;

/// Rows of block k: r = (u v - d, u + v² - d, 2 v - d) cut to `rows`, all times `scale`.
struct ByHand {
  Vector r;
  Matrix J;  // by u and v
};

ByHand block_by_hand(int rows, Real u, Real v, Real d, Real scale) {
  ByHand out{Vector(rows), Matrix(rows, 2)};
  const Real r[3] = {u * v - d, u + v * v - d, 2 * v - d};
  const Real J[3][2] = {{v, u}, {1, 2 * v}, {0, 2}};
  for (int k = 0; k < rows; ++k) {
    out.r[k] = scale * r[k];
    for (int c = 0; c < 2; ++c) out.J(k, c) = scale * J[k][c];
  }
  return out;
}

/// Applies Ceres' Corrector to a block. Returns ρ.
Real correct(const Loss& loss, ByHand& block) {
  const Real s = block.r.squaredNorm();
  const std::array<double, 3> rho = loss.evaluate(static_cast<double>(s));
  const Real root = std::sqrt(static_cast<Real>(rho[1]));
  if (s == 0 || rho[2] <= 0) {
    block.J *= root;
    block.r *= root;
    return rho[0];
  }
  const Real alpha = 1 - std::sqrt(1 + 2 * s * rho[2] / rho[1]);
  block.J = (root * (block.J - alpha / s * block.r * (block.r.transpose() * block.J))).eval();
  block.r *= root / (1 - alpha);
  return rho[0];
}

Value row_of(const Value& u, const Value& v, double d, int k) {
  return k == 0 ? u * v - d : k == 1 ? u + v * v - d : literal(2) * v - d;
}

double bound(const SolverOptions& options) {
  return options.precision == Precision::f64 ? 2e-13 : 2e-4;
}

void expect_close(const Eigen::VectorXd& actual, const Vector& expected, double tolerance,
                  const char* what) {
  const double scale = static_cast<double>(expected.norm());
  EXPECT_LE((actual - expected.cast<double>()).norm(), tolerance * (scale + 1e-3)) << what;
}

}  // namespace

std::vector<RobustCase> robust_cases() {
  const Loss custom = Loss::custom([](const Value& s) { return s + 0.25 * s * s; }, "growing");
  return {{"huber", huber(0.5), 1},
          {"huber, inliers", huber(50), 1},
          {"soft_l1", soft_l1(0.7), 1},
          {"cauchy", cauchy(0.3), 1},
          {"arctan", arctan(1.2), 0.5},
          {"tukey", tukey(4), 0.5},
          {"tolerant", tolerant(1.5, 0.4), 0.6},
          {"scaled", scaled(huber(0.5), 0.1), 1},
          {"composed", composed(cauchy(1), tolerant(0.5, 0.4)), 0.7},
          {"custom with a positive second derivative", custom, 0.4}};
}

void check_robust(const RobustCase& row, const SolverOptions& options) {
  std::vector<double> values;
  for (int k = 0; k <= kBlocks; ++k) values.push_back(static_cast<float>(0.4 + 0.3 * std::sin(k)));
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const auto n = static_cast<Eigen::Index>(values.size());
  const Eigen::Index m = kBlocks * 2;  // one, two, three rows in turn, and one more
  Matrix J = Matrix::Zero(m + 1, n);
  Vector r(m + 1);
  Real cost = 0;
  Eigen::Index first = 0;
  for (int k = 0; first < m; ++k) {
    const int rows = k % 3 + 1;
    if (first + rows > m + 1) break;
    const double d = static_cast<float>(0.1 * k), scale = static_cast<float>(row.scale);
    std::vector<Value> traced;
    const int a = k % kBlocks, b = a + 1;
    for (int i = 0; i < rows; ++i) traced.push_back(scale * row_of(x[a], x[b], d, i));
    problem.add_residual(traced, {.loss = row.loss});
    ByHand block = block_by_hand(rows, values[a], values[b], d, scale);
    cost += correct(row.loss, block) / 2;
    r.segment(first, rows) = block.r;
    J.block(first, a, rows, 2) = block.J;
    first += rows;
  }
  const Eigen::Index total = static_cast<Eigen::Index>(problem.residual_count());
  ASSERT_GT(total, m - 3);
  J.conservativeResize(total, n);
  r.conservativeResize(total);
  Evaluator evaluator(problem, options);
  const double tolerance = bound(options);
  EXPECT_NEAR(evaluator.cost(), static_cast<double>(cost), tolerance * static_cast<double>(cost));
  expect_close(evaluator.residuals(), r, tolerance, "residuals");
  expect_close(evaluator.gradient(), J.transpose() * r, tolerance, "gradient");
  const Evaluation all = evaluator.evaluate({.residuals = true});
  EXPECT_NEAR(all.cost, static_cast<double>(cost), tolerance * static_cast<double>(cost));
  expect_close(all.residuals, r, tolerance, "residuals of evaluate");
  expect_close(all.gradient, J.transpose() * r, tolerance, "gradient of evaluate");
  const Evaluation two = evaluator.evaluate();
  EXPECT_NEAR(two.cost, static_cast<double>(cost), tolerance * static_cast<double>(cost));
  expect_close(two.gradient, J.transpose() * r, tolerance, "gradient with the cost");
  const Eigen::MatrixXd jacobian = evaluator.jacobian();
  EXPECT_LE((jacobian - J.cast<double>()).norm(), tolerance * static_cast<double>(J.norm()));
  const Eigen::VectorXd p = Eigen::VectorXd::LinSpaced(n, -1, 1).cast<float>().cast<double>();
  const Vector image = J * p.cast<Real>();
  expect_close(evaluator.jvp(p), image, tolerance, "jvp");
  const Eigen::VectorXd seeds =
      Eigen::VectorXd::LinSpaced(total, 1, -0.5).cast<float>().cast<double>();
  expect_close(evaluator.vjp(seeds), J.transpose() * seeds.cast<Real>(), tolerance, "vjp");
  expect_close(evaluator.jtjp(p), J.transpose() * image, tolerance, "jtjp");
}

}  // namespace topograd::test
