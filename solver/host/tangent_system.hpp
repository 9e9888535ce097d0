// Linear systems of steps on the host, in tangent coordinates: one class for each way to solve one.
#pragma once

#include "../linear/factor/elimination.hpp"
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
class TangentSystem {
 public:
  virtual ~TangentSystem() = default;

  virtual LinearSolver kind() const = 0;
  virtual bool reads_residuals() const { return false; }
  /// vᵀ S JᵀJ S v.
  virtual double quadratic(const Eigen::VectorXd& v) const = 0;

  /// A new point.
  ///
  ///   scale      by column, > 0
  ///   gradient   Jᵀr
  ///   residuals  r of the whole problem, if they are read
  void set(TangentJacobian& jacobian, const Eigen::VectorXd& scale, const Eigen::VectorXd& gradient,
           const Eigen::VectorXd& residuals);
  /// Nothing if the matrix is singular in working precision.
  ///
  ///   damping  by column, >= 0
  std::optional<Eigen::VectorXd> solve(const Eigen::VectorXd& damping,
                                       const DampedRequest& request);
  /// Diagonal of S JᵀJ S.
  const Eigen::VectorXd& diagonal() const { return diagonal_; }
  /// Iterations of conjugate gradients in the last solve.
  int iterations() const { return iterations_; }

 protected:
  /// Takes the matrix and sets diagonal_.
  virtual void set_matrix(TangentJacobian& jacobian, const Eigen::VectorXd& scale,
                          const Eigen::VectorXd& residuals) = 0;
  /// As solve(), without its check for numbers that are not finite.
  virtual std::optional<Eigen::VectorXd> solve_damped(const Eigen::VectorXd& damping,
                                                      const DampedRequest& request) = 0;

  Eigen::VectorXd right_, diagonal_;
  int iterations_ = 0;
};

struct TangentSystemSetup {
  runtime::cpu::CpuWork work;  ///< threads and bits of factorisations
  EliminationHint hint = {};   ///< blocks to eliminate; `automatic` is schur with them
  std::optional<SchurIteration> limits = {};  ///< of schur by conjugate gradients; else by a factor
};

/// Each row of the solvers has a function make_tangent_NAME(), which stands with the class.
/// `automatic` is schur where an elimination pays, else cholesky.
std::unique_ptr<TangentSystem> make_tangent_system(LinearSolver kind, TangentSystemSetup setup);
#define TG_LINEAR_SOLVER(row, ...) \
  std::unique_ptr<TangentSystem> make_tangent_##row(TangentSystemSetup setup);
#include "../option_values.def"

}  // namespace topograd
