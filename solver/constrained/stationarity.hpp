// When the gradient of a Lagrangian counts as zero.
#pragma once

#include <algorithm>
#include <limits>

namespace topograd {

/// Judges gradients of the Lagrangian by the size of the objective's: tolerances are shares of it.
class Stationarity {
 public:
  ///   gradient  max |∇f| at the start
  void start(double gradient) { first_ = gradient; }
  ///   gradient  max |∇f| at the present point
  void measure(double gradient) {
    scale_ = std::max(gradient, kShareOfStart * first_);
    if (!(scale_ > 0)) scale_ = 1;
  }

  /// The largest gradient that meets the tolerance.
  double bound(double tolerance) const { return tolerance * scale_; }
  /// The gradient of a feasible point, after a minimisation, meets the tolerance as well as
  /// rounding lets it.
  bool reached(double gradient, double tolerance) {
    idle_ = gradient < least_ / 2 ? 0 : idle_ + 1;
    least_ = std::min(least_, gradient);
    const bool rounding = idle_ >= kMostIdle && gradient <= kNearly * bound(tolerance);
    return gradient <= bound(tolerance) || rounding;
  }
  /// Minimisations since the gradient of feasible points fell.
  int idle() const { return idle_; }

 private:
  /// The unit is at least this share of the objective's gradient at the start.
  static constexpr double kShareOfStart = 1e-2;
  /// Minimisations without a smaller gradient after which rounding is the reason, if the gradient
  /// is at most this many tolerances.
  static constexpr int kMostIdle = 4;
  static constexpr double kNearly = 30;

  double scale_ = 0, first_ = 0;
  double least_ = std::numeric_limits<double>::infinity();  // of feasible points
  int idle_ = 0;
};

}  // namespace topograd
