// Solves from x* at places of a line.
#include "whole_solves.hpp"

#include "../../../solver/evaluator.hpp"

#include <gtest/gtest.h>
#include <Eigen/SparseCholesky>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace topograd::test {

SolverOptions to_rounding(LinearSolver solver) {
  SolverOptions options;
  options.backend = Backend::cpu;
  options.linear_solver = solver;
  options.max_iterations = 300;
  options.function_tolerance = 1e-18;
  options.gradient_tolerance = 1e-16;
  options.parameter_tolerance = 1e-15;
  return options;
}

Eigen::VectorXd some_numbers(std::size_t count, double seed) {
  Eigen::VectorXd out(static_cast<Eigen::Index>(count));
  for (Eigen::Index k = 0; k < out.size(); ++k)
    out[k] = std::sin(seed + 1.7 * static_cast<double>(k) + std::cos(3.1 * static_cast<double>(k)));
  return out;
}

void polish(Problem& problem, int steps) {
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  std::vector<double> x(problem.parameter_count());
  for (; steps > 0; --steps) {
    problem.read_x(x);
    Eigen::SparseMatrix<double> hessian = evaluator.hessian(x);
    const Eigen::VectorXd diagonal = hessian.diagonal();
    Eigen::VectorXd scale = Eigen::VectorXd::Ones(diagonal.size());
    for (Eigen::Index k = 0; k < scale.size(); ++k) {
      if (diagonal[k] != 0) scale[k] = 1 / std::sqrt(diagonal[k]);
      if (diagonal[k] == 0) hessian.coeffRef(k, k) = 1;  // fixed
    }
    const Eigen::SparseMatrix<double> scaled = scale.asDiagonal() * hessian * scale.asDiagonal();
    const Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>> factor(scaled);
    const Eigen::VectorXd step =
        scale.cwiseProduct(factor.solve(scale.cwiseProduct(evaluator.gradient(x))));
    for (std::size_t k = 0; k < x.size(); ++k) x[k] -= step[static_cast<Eigen::Index>(k)];
    problem.write_x(x);
  }
}

Eigen::VectorXd difference(const Line& line) {
  std::vector<double> solution(line.problem.parameter_count());
  line.problem.read_x(solution);
  const auto at = [&](double t) {
    line.problem.write_x(solution);
    line.move(t);
    const Summary summary = solve(line.problem, line.options);
    EXPECT_TRUE(std::isfinite(summary.final_cost)) << summary.message;
    if (line.newton_steps > 0) polish(line.problem, line.newton_steps);
    std::vector<double> x(solution.size());
    line.problem.read_x(x);
    return Eigen::VectorXd(
        Eigen::Map<Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size())));
  };
  std::vector<Eigen::VectorXd> central, extrapolated;
  double length = line.length;
  for (int level = 0; level < line.lengths; ++level, length /= 2)
    central.push_back((at(length) - at(-length)) / (2 * length));
  for (std::size_t k = 2; k < central.size(); ++k) {
    const Eigen::VectorXd first = (4 * central[k - 1] - central[k - 2]) / 3;
    const Eigen::VectorXd last = (4 * central[k] - central[k - 1]) / 3;
    extrapolated.push_back((16 * last - first) / 15);
  }
  line.move(0);
  line.problem.write_x(solution);
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 1; k < extrapolated.size(); ++k) {
    const double change = (extrapolated[k] - extrapolated[k - 1]).norm();
    if (change >= least) continue;
    least = change;
    best = k;
  }
  return extrapolated[best];
}

void expect_derivative(const Sensitivity& sensitivity, const Line& line, double tolerance) {
  ASSERT_EQ(sensitivity.size(), static_cast<std::size_t>(line.dtheta.size()));
  const Eigen::VectorXd expected = difference(line), dx = sensitivity.jvp(line.dtheta);
  ASSERT_EQ(dx.size(), expected.size());
  EXPECT_GT(expected.norm(), 0);
  EXPECT_LE((dx - expected).norm(), tolerance * expected.norm())
      << "‖expected‖ " << expected.norm() << ", ‖error‖ " << (dx - expected).norm();
  for (const double seed : {0.3, 4.1}) {
    const Eigen::VectorXd v = some_numbers(static_cast<std::size_t>(dx.size()), seed);
    const Eigen::VectorXd back = sensitivity.vjp(v);
    ASSERT_EQ(back.size(), line.dtheta.size());
    const double scale =
        back.cwiseAbs().dot(line.dtheta.cwiseAbs()) + v.cwiseAbs().dot(dx.cwiseAbs());
    EXPECT_NEAR(back.dot(line.dtheta), v.dot(dx), 1e-9 * scale);
  }
}

}  // namespace topograd::test
