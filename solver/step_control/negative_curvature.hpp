// Ways along which a cost falls where its gradient says nothing: curvature, steps beside a point.
#pragma once

#include "newton_decrement.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// A direction of negative curvature of a cost.
struct NegativeCurvature {
  Eigen::VectorXd direction;  ///< d, with d·g <= 0
  double curvature;           ///< d·H d < 0
};

/// The direction of the least eigenvalue of H in units in which the largest entry of each row is 1;
/// none if it is not negative beyond rounding, or if columns of the Jacobian explain as much along
/// it: then steps from these have seen it. Units of the unknowns and of the cost decide
/// nothing, and the bits are the same on every machine.
///
///   unit  relative rounding unit of the numbers
///
/// Source: Ruiz, A scaling algorithm to equilibrate both rows and columns norms in matrices (2001),
/// for the units; Golub, Van Loan, Matrix Computations, section 8.5, for Jacobi's rotations.
std::optional<NegativeCurvature> negative_curvature(const QuadraticModel& at, double unit);

/// The direction of the least eigenvalue of H as it is; none if that is not below `bound` < 0.
std::optional<NegativeCurvature> least_curvature(const Eigen::MatrixXd& hessian,
                                                 const Eigen::VectorXd& gradient, double bound);

/// True if a column that is not zero is a combination of others but for rounding.
///
///   normal  JᵀJ
bool has_dependent_columns(Eigen::MatrixXd normal);

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

/// An unknown whose derivatives say nothing at a point, and what reads it.
struct BesideUnknown {
  double cost = 0;   ///< at the point, of the residuals that read the unknown
  double least = 0;  ///< gain that counts, of this cost
  /// Norm of its column. Where the column explains what a step changes, the cost says no more than
  /// the gradient did. 0: it explains nothing.
  double column = 0;
};

/// A step of one of them, and its gain; 0: none.
struct BesideStep {
  double step = 0, gain = 0;
};

/// A step whose cost is asked for.
struct BesideProbe {
  std::uint32_t unknown;  ///< number among the unknowns
  double step;
};

/// Returns the costs, each of the residuals that read the unknown.
using CostsBeside = std::function<std::vector<double>(std::span<const BesideProbe> probes)>;

/// The best step of each unknown, the others where they are. At the kink of |x|, and at the zero
/// of x⁴, second derivatives say nothing either. Steps are as long as it takes to change the cost
/// by shares of it, so that units decide nothing: the exponent of their length is found by
/// bisection.
///
/// Cost: at most 42 probes for each unknown, in 13 calls.
std::vector<BesideStep> steps_beside(std::span<const BesideUnknown> unknowns,
                                     const CostsBeside& costs);

}  // namespace topograd
