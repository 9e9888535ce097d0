// Steps whose linear system another engine holds in lower precision.
#pragma once

#include "engine.hpp"

namespace topograd::runtime {

/// What an engine may be beside an Engine.
class NarrowSolve {
 public:
  virtual ~NarrowSolve() = default;
  /// From here on linearize(), try_step(request) and accept() leave JᵀJ, its preconditioner and
  /// conjugate gradients to `narrow`, an engine of the same model; points, costs and gradients stay
  /// here. Nothing of it goes through the host. To be called again after each refresh() of the two;
  /// `narrow` outlives these calls. False: they do not go together, and steps stay what they were.
  virtual bool solve_by(Engine& narrow) = 0;
};

}  // namespace topograd::runtime
