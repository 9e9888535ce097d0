// The gain ratio of steps, and the radius of the trust region: 1 / radius is the damping.
#pragma once

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// Actual over predicted decrease, from the last point or from the highest of the last ones,
/// whichever gives the better ratio.
///
/// Source: Toint, Non-monotone trust-region algorithms for nonlinear optimization subject to convex
/// constraints (1997), as Ceres Solver's TrustRegionStepEvaluator has it.
class Gain {
 public:
  ///   steps  largest number without a new minimum, >= 1
  explicit Gain(int steps) : max_steps_(steps) {}

  void start(double cost);
  /// Ratio of a trial with this cost if the model predicted a decrease of `predicted` > 0.
  double ratio(double cost, double predicted) const;
  void accepted(double cost, double predicted);
  void transfer(ir::StateRecord& record);
  /// The lowest cost so far.
  double minimum() const { return minimum_; }

 private:
  int max_steps_;
  int steps_ = 0;  // since the minimum
  double minimum_ = 0, current_ = 0, reference_ = 0, candidate_ = 0;
  double predicted_since_reference_ = 0, predicted_since_candidate_ = 0;
};

/// Grows after steps that the model predicted well, shrinks ever faster after rejected ones.
///
/// Source: Ceres Solver's LevenbergMarquardtStrategy and DoglegStrategy; Madsen, Nielsen, Tingleff,
/// Methods for Non-linear Least Squares Problems, 2nd ed. (2004), section 3.2.
class TrustRegion {
 public:
  ///   radius   > 0, the first one
  ///   largest  >= radius
  ///   dogleg   the radius is that of the step itself, not the inverse of a damping
  TrustRegion(double radius, double largest, bool dogleg = false);

  /// First radius of a minimisation that goes on from another one, which began with `first`.
  static double next_first(double last, double first);

  double radius() const { return radius_; }
  bool is_largest() const { return radius_ >= largest_; }
  /// Call after an accepted step; `gain` is actual over predicted decrease. `step` is its norm,
  /// read for the dogleg: a good step allows one three times as long, a poor one halves the radius.
  ///
  ///   slow  the cost fell nearly as much as in the step before: where such steps are good ones, it
  ///         is the radius that makes them short, and it grows a little more, at most three times
  void accepted(double gain, double step = 0, bool slow = false);
  /// Grows the radius by a factor, not for a step that was accepted. False if it would be larger
  /// than `most` or the largest one.
  bool widen(double factor, double most);
  /// Begins at this radius, which the largest one then is at least.
  void restart(double radius);
  /// Grows the radius and the largest one as after a good step, up to `most`.
  void extend(double most);
  /// From now on the radius is at most a share of what it is.
  void limit(double share);
  /// Call if the trial point was worse than predicted: radius /= 2, then 4, 8, ... (dogleg: 2).
  void rejected();
  /// Call if the model itself predicted no decrease: radius /= 2.
  void invalid();
  void transfer(ir::StateRecord& record);

 private:
  double radius_;
  double largest_;
  double shrink_ = 2;
  bool dogleg_;
};

}  // namespace topograd
