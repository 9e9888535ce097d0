// The gain ratio of steps that may raise the cost for a while.
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

}  // namespace topograd
