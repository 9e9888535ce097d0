// The gradient from which steps are made.
#pragma once

#include <span>

namespace topograd::runtime {

/// An ability (abilities.hpp).
class StepGradient {
 public:
  virtual ~StepGradient() = default;
  /// Copies Jᵀr of the last linearize() in the coordinates of steps (ManifoldBlocks); 0 at scalars
  /// that take no part in them.
  virtual void step_gradient(std::span<double> g) = 0;
};

}  // namespace topograd::runtime
