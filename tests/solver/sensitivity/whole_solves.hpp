// Central differences of whole solves, the reference for derivatives of solutions.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/sensitivity.hpp"
#include "../../../solver/solve.hpp"

#include <Eigen/Core>

#include <functional>

namespace topograd::test {

/// Tolerances that only rounding ends, on the CPU.
SolverOptions to_rounding(LinearSolver solver = LinearSolver::cholesky);

/// Moves x by Newton steps on the gradient, with columns of the Hessian scaled to a unit diagonal.
void polish(Problem& problem, int steps);

/// A problem at its solution, and a line in θ.
struct Line {
  Problem& problem;
  /// Sets the numbers of θ to θ + t dθ.
  std::function<void(double t)> move;
  Eigen::VectorXd dtheta;  ///< all of the sensitivity's θ
  double length = 0.2;     ///< of the longest difference; others are halves of it
  int lengths = 8;         ///< >= 3; each takes two solves
  SolverOptions options = to_rounding();
  /// Newton steps on the gradient after a solve, for all digits of x*: problems without bounds,
  /// constraints and manifolds. Methods that compare costs find half of the digits.
  int newton_steps = 0;
};

/// dx*/dt at t = 0 by solves from x*: central differences, of which three that follow one another
/// are extrapolated; of these the one that differs least from the one before (Ridders' rule). A
/// solve finds x* to about eight digits, where its cost is least to rounding, so that short lengths
/// are of no use. The problem is at x* afterwards.
Eigen::VectorXd difference(const Line& line);

/// Compares jvp() with differences of whole solves, and vjp() with jvp() by ⟨v, J dθ⟩ = ⟨Jᵀ v, dθ⟩.
///
///   tolerance  of ‖error‖ / ‖difference‖
void expect_derivative(const Sensitivity& sensitivity, const Line& line, double tolerance = 1e-6);

/// Numbers in [−1, 1], the same on every machine.
Eigen::VectorXd some_numbers(std::size_t count, double seed);

}  // namespace topograd::test
