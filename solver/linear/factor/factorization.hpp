// Factorisations of symmetric positive definite matrices with one pattern.
#pragma once

#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../../runtime/factor/refinement.hpp"
#include "../../options.hpp"
#include "elimination.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <cstdint>
#include <memory>
#include <optional>

namespace topograd {

/// Stopping rule of conjugate gradients.
struct SchurIteration {
  double tolerance = 1e-5;  ///< ‖residual‖ / ‖right side‖ of the kept unknowns
  int max_iterations = 500;
  double eta = 0;            ///< SolverOptions::eta
  bool energy_norm = false;  ///< StepRequest::energy_norm: the norm of the tolerance
};

/// Matrices are lower triangles, compressed by columns, rows ascending, with all diagonal entries.
class Factorization {
 public:
  virtual ~Factorization() = default;

  /// Factorises other values in the initial pattern. Returns false if the matrix is not positive
  /// definite in working precision; solve() must not follow then.
  virtual bool factor(const SparseMatrix& lower) = 0;
  virtual Eigen::VectorXd solve(const Eigen::VectorXd& right) const = 0;

  /// The rule of conjugate gradients in the next solve(), where it takes them.
  virtual void stop_at(const SchurIteration&) {}
  /// Iterations of conjugate gradients in the last solve().
  virtual int iterations() const { return 0; }

  /// Entries of the factor and operations of a factorisation; 0 for iterations.
  virtual double entries() const { return 0; }
  virtual double flops() const { return 0; }

  /// Pivots of the last factor() that vanished: their unknowns are 0.
  virtual std::uint64_t vanished() const { return 0; }
};

/// Sparse Cholesky, LLᵀ, with a fill-reducing order found here: by fronts
/// (runtime/cpu/factor/sparse_factor.hpp), whose results do not depend on the number of threads, or
/// by CHOLMOD if it was built in.
///
///   work     threads, and bits of fronts; a number is that of threads
///   backend  host or cholmod; others mean used_on_host()
///   rule     for pivots by fronts; CHOLMOD refuses those that vanish
std::unique_ptr<Factorization> make_sparse_factorization(
    const SparseMatrix& pattern, const runtime::cpu::CpuWork& work,
    FactorPlace backend = FactorPlace::automatic, const runtime::PivotRule& rule = {});
/// The library that factorises on the host: cholmod or host.
FactorPlace used_on_host(FactorPlace backend);

/// Eliminates the blocks first, separately and in parallel, and factorises the Schur complement B −
/// Eᵀ C⁻¹ E: densely if it is small or full, else as a sparse matrix. Results do not depend on the
/// number of threads.
///
///   work     threads of the elimination, and bits of fronts
///   limits   if given, make_iterative_schur() solves for the remainder instead
///
/// Source: Triggs, McLauchlan, Hartley, Fitzgibbon, Bundle Adjustment: A Modern Synthesis (2000),
/// section 6.1.
std::unique_ptr<Factorization> make_schur_factorization(
    const SparseMatrix& pattern, const Elimination& elimination, const runtime::cpu::CpuWork& work,
    const std::optional<SchurIteration>& limits = {});

/// Eliminates blocks in the same way, and solves for the others by conjugate gradients on products
/// with the Schur complement, which is not formed, preconditioned by the inverses of its diagonal
/// blocks. Results do not depend on the number of threads.
///
///   work  threads, and bits of the inverses
///
/// Source: Agarwal, Snavely, Seitz, Szeliski, Bundle Adjustment in the Large (2010), section 3.3.
std::unique_ptr<Factorization> make_iterative_schur(const SparseMatrix& pattern,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits,
                                                    const runtime::cpu::CpuWork& work);

}  // namespace topograd
