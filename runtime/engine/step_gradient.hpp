// The gradient that steps are made from, of engines that can show it.
#pragma once

#include <span>

namespace topograd::runtime {

/// An ability (abilities.hpp).
class StepGradient {
 public:
  virtual ~StepGradient() = default;
  /// Jᵀr of the last linearize(), in the coordinates in which steps are made (Chart); 0 at scalars
  /// that take no part in them.
  virtual void step_gradient(std::span<double> g) = 0;
};

}  // namespace topograd::runtime
