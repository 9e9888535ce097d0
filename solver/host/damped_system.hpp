// Solving damped normal equations on the host: sparse Cholesky, dense QR or conjugate gradients.
#pragma once

#include "../linear/factor/factorization.hpp"
#include "../options.hpp"
#include "tangent_jacobian.hpp"

#include <Eigen/Core>

#include <memory>
#include <optional>

namespace topograd {

/// Parameters of one linear solve.
struct DampedRequest {
  double tolerance = 1e-5;   ///< conjugate gradients: ‖residual‖ / ‖right side‖
  int max_iterations = 500;  ///< likewise
};

/// Solves (S JᵀJ S + diag(d)) y = −S g for the Jacobian that it was last given, S a column scaling.
class DampedSystem {
 public:
  ///   kind     cholesky, schur, dense, pcg, or automatic: schur where elimination pays, else
  ///            cholesky
  ///   work     threads and bits of factorisations
  ///   hint     blocks for schur to eliminate; automatic is schur then
  ///   limits   of schur by conjugate gradients; else it is by a factor
  DampedSystem(LinearSolver kind, const runtime::cpu::CpuWork& work, EliminationHint hint = {},
               const std::optional<SchurIteration>& limits = {});
  ~DampedSystem();
  DampedSystem& operator=(DampedSystem&&) noexcept;

  LinearSolver kind() const;
  /// A new point.
  ///
  ///   scale      by column, > 0
  ///   gradient   Jᵀr
  ///   residuals  r of the whole problem; read by dense
  void set(TangentJacobian& jacobian, const Eigen::VectorXd& scale, const Eigen::VectorXd& gradient,
           const Eigen::VectorXd& residuals);
  /// Nothing if the matrix is singular in working precision.
  ///
  ///   damping  by column, >= 0
  std::optional<Eigen::VectorXd> solve(const Eigen::VectorXd& damping,
                                       const DampedRequest& request);
  /// vᵀ S JᵀJ S v.
  double quadratic(const Eigen::VectorXd& v) const;
  /// Diagonal of S JᵀJ S.
  const Eigen::VectorXd& diagonal() const;
  /// Iterations of conjugate gradients in the last solve.
  int iterations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
