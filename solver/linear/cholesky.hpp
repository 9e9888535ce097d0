// Steps by sparse Cholesky factorisation on the host, with the symbolic part done once.
#pragma once

#include <topograd/runtime/model.hpp>
#include <topograd/solver/linear/step_solver.hpp>

#include <memory>

namespace topograd {

/// Factors JᵀJ + λD (Eigen's SimplicialLLT with approximate minimum degree ordering, or CHOLMOD
/// where built with TOPOGRAD_CHOLMOD). Works beside either engine; Jacobian and gradient of each
/// linearised point come to the host once.
class CholeskyStep final : public StepSolver {
 public:
  /// Finds pattern, ordering and elimination tree. Throws Error{Unsupported} as NormalEquations
  /// does.
  explicit CholeskyStep(const runtime::Model& model);
  ~CholeskyStep() override;

  /// Entries of the factor and multiply-adds of a factorisation; 0 where the library does not say
  /// (without CHOLMOD).
  double factor_entries() const;
  double factor_flops() const;

  LinearSolver kind() const override { return LinearSolver::cholesky; }
  void linearized(runtime::Engine& engine) override;
  /// model_decrease is NaN if the matrix is not positive definite.
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
