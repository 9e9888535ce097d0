// Factorisations of symmetric positive definite matrices that share one pattern.
#pragma once

#include "elimination.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <memory>
#include <optional>

namespace topograd {

/// Matrices are lower triangles, compressed by columns, rows ascending, every diagonal entry there.
class Factorization {
 public:
  virtual ~Factorization() = default;

  /// Takes other values in the pattern that it was made with. False if the matrix is not positive
  /// definite in working precision; solve() must not follow then.
  virtual bool factor(const SparseMatrix& lower) = 0;
  virtual Eigen::VectorXd solve(const Eigen::VectorXd& right) const = 0;

  /// Of conjugate gradients in the last solve().
  virtual int iterations() const { return 0; }

  /// Entries of the factor and operations of a factorisation; 0 where the library does not say.
  virtual double entries() const { return 0; }
  virtual double flops() const { return 0; }
};

/// Whether sparse factorisations tell their entries and operations.
bool factor_cost_is_known();

/// Sparse Cholesky, LLᵀ, with a fill-reducing order found here: CHOLMOD's supernodal one where it
/// was built in, else Eigen's with approximate minimum degree.
std::unique_ptr<Factorization> make_sparse_factorization(const SparseMatrix& pattern);

/// Where conjugate gradients end.
struct SchurIteration {
  double tolerance = 1e-5;  ///< ‖residual‖ / ‖right side‖ of the kept unknowns
  int max_iterations = 500;
  double eta = 0;            ///< SolverOptions::eta
  bool energy_norm = false;  ///< StepRequest::energy_norm: the norm of the tolerance
};

/// Eliminates the blocks first, each by itself and in parallel, and factors what remains, the Schur
/// complement B − Eᵀ C⁻¹ E: densely where it is small or full, else as above. Results do not depend
/// on the number of threads.
///
///   threads  of the elimination, 0 = all
///   limits   solves for what remains by make_iterative_schur() instead
///
/// Source: Triggs, McLauchlan, Hartley, Fitzgibbon, Bundle Adjustment: A Modern Synthesis (2000),
/// section 6.1.
std::unique_ptr<Factorization> make_schur_factorization(
    const SparseMatrix& pattern, const Elimination& elimination, int threads,
    const std::optional<SchurIteration>& limits = {});

/// Eliminates blocks likewise, and solves for the others by conjugate gradients on products with
/// the Schur complement, which is not formed, preconditioned by the inverses of its own diagonal
/// blocks. Results do not depend on the number of threads.
///
/// Source: Agarwal, Snavely, Seitz, Szeliski, Bundle Adjustment in the Large (2010), section 3.3.
std::unique_ptr<Factorization> make_iterative_schur(const SparseMatrix& pattern,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits, int threads);

}  // namespace topograd
