// PETSc's Krylov methods for the linear systems of steps.
#pragma once

#include "communicator.hpp"

#include "../runtime/cpu/linear/conjugate_gradients.hpp"

#include <petscksp.h>

namespace topograd::distributed {

/// KSP on the ranks' own scalars, with the product as a shell matrix and block Jacobi as a shell
/// preconditioner. Options of PETSc choose another method (-ksp_type), watch it (-ksp_monitor) or
/// leave the preconditioner out (-pc_type none).
class PetscKrylov final : public runtime::cpu::KrylovMethod {
 public:
  ///   ranks  outlives it
  explicit PetscKrylov(const Communicator& ranks) : ranks_(ranks) {}

  /// Throws Error{Internal} with PETSc's message.
  runtime::cpu::CgReport solve(runtime::cpu::LinearOperator<double>& matrix,
                               runtime::cpu::HostPreconditioner<double>& preconditioner,
                               std::span<const double> b, std::span<double> x,
                               const runtime::cpu::CgOptions& options) override;

 private:
  const Communicator& ranks_;
};

}  // namespace topograd::distributed
