// PETSc's Krylov methods for the linear systems of steps, and errors of PETSc's calls.
#pragma once

#include <petscksp.h>
#include <petscsys.h>
#include <span>
#include <string>

#include "../ir/error.hpp"
#include "../runtime/cpu/linear/conjugate_gradients.hpp"
#include "communicator.hpp"

namespace topograd::distributed {

/// Throws Error{Internal} with PETSc's text unless the call succeeded.
inline void check(PetscErrorCode code) {
  if (code == 0) return;
  const char* text = nullptr;
  PetscErrorMessage(code, &text, nullptr);
  throw Error(ErrorCode::Internal,
              std::string("distributed: PETSc: ") + (text == nullptr ? "unknown error" : text));
}

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
