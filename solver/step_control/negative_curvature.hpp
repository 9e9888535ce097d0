// Directions of negative curvature of a cost, and the way along them: from a saddle, where the
// gradient is zero, to a lower cost.
#pragma once

#include "newton_decrement.hpp"

#include <Eigen/Core>

#include <optional>

namespace topograd {

/// A direction of negative curvature of a cost.
struct NegativeCurvature {
  Eigen::VectorXd direction;  ///< d, with d·g <= 0
  double curvature;           ///< d·H d < 0
};

/// The direction of the least eigenvalue of H in units in which the largest entry of each row is 1;
/// none if it is not negative beyond rounding. Units of the unknowns and of the cost decide
/// nothing, and the bits are the same on every machine.
///
///   unit  relative rounding unit of the numbers
///
/// Source: Ruiz, A scaling algorithm to equilibrate both rows and columns norms in matrices (2001),
/// for the units; Golub, Van Loan, Matrix Computations, section 8.5, for Jacobi's rotations.
std::optional<NegativeCurvature> negative_curvature(const QuadraticModel& at, double unit);

/// Steps ± t d along such a direction: t doubles from where the curvature promises the least gain,
/// while the cost falls.
///
/// Source: McCormick, A modification of Armijo's step-size rule for negative curvature,
/// Mathematical Programming 13 (1977).
class SaddleSearch {
 public:
  ///   cost   at the point
  ///   least  gain that counts, of the cost
  SaddleSearch(double cost, double curvature, double least);

  /// The next step, in units of d; 0: there is none.
  double length() const { return length_; }
  /// The cost at the next step.
  void judge(double cost);
  /// The step of the lowest cost, once there is no next one; 0 if none gains enough.
  double best() const { return best_; }

 private:
  double start_, first_, length_;
  double last_, best_cost_, best_ = 0;
  int doublings_ = 0;
};

}  // namespace topograd
