// Another method in the place of conjugate_gradients(), such as another library's.
#pragma once

#include "conjugate_gradients.hpp"

#include <span>

namespace topograd::runtime::cpu {

/// Solves the damped normal equations of a step.
class KrylovMethod {
 public:
  virtual ~KrylovMethod() = default;
  /// Solves A x = b from x = 0 on the scalars of the preconditioner's ranges; the others are
  /// ghosts, and keep their numbers.
  ///
  ///   options  its tolerance, norm and bound of iterations are meant
  virtual CgReport solve(LinearOperator<double>& matrix, HostPreconditioner<double>& preconditioner,
                         std::span<const double> b, std::span<double> x,
                         const CgOptions& options) = 0;
};

}  // namespace topograd::runtime::cpu
