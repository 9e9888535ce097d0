// Steps whose linear system another engine has in lower precision.
#pragma once

#include "engine.hpp"

#include <memory>

namespace topograd::runtime {

/// An ability (abilities.hpp).
class NarrowSolve {
 public:
  virtual ~NarrowSolve() = default;
  /// An engine in f32 of the same model, where this one runs and with its options. It may be used
  /// as any other, too.
  virtual std::unique_ptr<Engine> make_narrow(const Model& model) = 0;
  /// From here on linearize(), try_step(request) and accept() leave JᵀJ, its preconditioner and
  /// conjugate gradients to what make_narrow() made last; points, costs and gradients stay here.
  /// Nothing of it goes through the host. To be called again after each refresh() of the two; that
  /// engine outlives these calls. False: they do not go together, and steps stay what they were.
  virtual bool solve_by_narrow() = 0;
};

}  // namespace topograd::runtime
