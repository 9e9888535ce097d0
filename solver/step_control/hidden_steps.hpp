// Steps whose effect on the cost is hidden in its rounding.
#pragma once

#include "../options.hpp"
#include "trust_region.hpp"

#include <limits>

namespace topograd {

/// Judges steps by the gradient where neither the cost nor the linear model can tell whether they
/// are good. Only for solves that end by their gradient.
class HiddenSteps {
 public:
  explicit HiddenSteps(const SolverOptions& options);

  /// True if the change of the cost and the model's decrease are within the rounding of the cost.
  bool hides(double cost, double cost_change, double model_decrease) const;
  /// True if the last step was hidden: the next one is then judged by its gradient, too.
  bool last() const { return last_; }
  void set_last(bool hidden) { last_ = hidden; }
  /// Call after a hidden step: sizes the region by the gradients before and after it. Returns true
  /// if gradients fall no more.
  bool follow(double gradient_before, double gradient, TrustRegion& region);

 private:
  bool judges_;
  Precision precision_;
  bool last_ = false;
  double least_gradient_ = std::numeric_limits<double>::infinity();
  int idle_ = 0;  // hidden steps since it fell
};

}  // namespace topograd
