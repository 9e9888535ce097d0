// The radius of the trust region: 1 / radius is the damping of the next step.
#pragma once

namespace topograd {

/// Grows after steps that the model predicted well, shrinks ever faster after rejected ones.
///
/// Source: Ceres Solver's LevenbergMarquardtStrategy; Madsen, Nielsen, Tingleff, Methods for
/// Non-linear Least Squares Problems, 2nd ed. (2004), section 3.2.
class TrustRegion {
 public:
  ///   radius   > 0, the first one
  ///   largest  >= radius
  TrustRegion(double radius, double largest);

  double radius() const { return radius_; }
  /// The step was taken; `gain` is actual over predicted decrease.
  void accepted(double gain);
  /// The trial point was worse than the model promised: radius /= 2, then 4, 8, ...
  void rejected();
  /// The model itself expected nothing of the step: radius /= 2.
  void invalid();

 private:
  double radius_;
  double largest_;
  double shrink_ = 2;
};

}  // namespace topograd
