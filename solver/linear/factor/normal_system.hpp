// Damped normal equations of one problem: their values at a point, and factors of them.
#pragma once

#include "../../../runtime/engine/engine.hpp"
#include "../../../runtime/model/model.hpp"
#include "factorization.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd {

/// (JᵀJ + D) δ = b over the free scalars of a model, with D diagonal. Results do not depend on the
/// number of threads.
class NormalSystem {
 public:
  virtual ~NormalSystem() = default;

  /// Position of free scalar k among all scalars, ascending.
  virtual std::span<const std::uint32_t> free_scalars() const = 0;
  std::size_t size() const { return free_scalars().size(); }

  /// Reads the Jacobian at the engine's point.
  virtual void refresh(runtime::Engine& engine) = 0;
  /// The diagonal of JᵀJ.
  virtual double diagonal(std::size_t k) const = 0;
  /// The diagonal for the damping, as UndeterminedBlocks has it.
  virtual void damping_diagonal(std::vector<double>& out) const = 0;

  /// Factorises. False if the matrix is not positive definite; solve() must not follow then.
  ///
  ///   damping  D    right  b
  virtual bool factor(std::span<const double> damping, const Eigen::VectorXd& right) = 0;
  /// Solves for the right side of the last factor().
  virtual Eigen::VectorXd solve() = 0;
  /// v·JᵀJ v.
  virtual double square(const Eigen::VectorXd& v) const = 0;

  /// Returns J v, with J as refresh() has read it; empty if the system does not keep its rows.
  virtual std::vector<double> rows_along(const Eigen::VectorXd& /*v*/) const { return {}; }
  /// Solves (JᵀJ + D) a = −Jᵀ w by the last factor, for a system with rows_along(); solve() must
  /// not follow.
  virtual Eigen::VectorXd correct(std::span<const double> /*w*/) { return {}; }

  /// Like those of Factorization.
  virtual int iterations() const { return 0; }
  virtual double entries() const = 0;
  virtual double flops() const = 0;
  virtual std::uint64_t vanished() const { return 0; }
  /// What pivots that vanished may hide: the most by which the model could fall further than at
  /// this solution, if each was just below the share at which it vanishes. Rounding alone for
  /// directions in which the right side is zero, such as those of a gauge.
  virtual double hidden_decrease(const Eigen::VectorXd& /*solution*/) const { return 0; }
};

/// Steps have few digits where a pivot is so many units of those that vanish: strict factors refuse
/// it, because there is another way to solve.
inline constexpr double kUnitsOfStrict = 16;
/// The same, where each digit is needed.
inline constexpr double kUnitsOfExact = 1e6;

/// A factor of the whole matrix.
///
///   work          threads, and bits of the factor
///   factor        as make_sparse_factorization() takes it
///   strict_up_to  matrices of at most so many unknowns refuse pivots that vanish; larger ones
///                 leave them out (PivotRule)
///   units         of a strict matrix
std::unique_ptr<NormalSystem> make_matrix_system(const runtime::Model& model,
                                                 const runtime::cpu::CpuWork& work,
                                                 FactorPlace factor, std::uint64_t strict_up_to,
                                                 double units = kUnitsOfStrict);

/// A solution by make_iterative_schur().
std::unique_ptr<NormalSystem> make_iterative_system(const runtime::Model& model,
                                                    const runtime::cpu::CpuWork& work,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits);

/// Eliminates blocks straight from the rows of the Jacobian, without the matrix: a block's rows
/// give its part of JᵀJ and its couplings L⁻¹E, which are the only numbers that are stored, and the
/// Schur complement is factorised.
///
/// Source: as make_schur_factorization(); the symmetric form of the elimination is in Björck,
/// Numerical Methods for Least Squares Problems (1996), section 6.3.
std::unique_ptr<NormalSystem> make_row_schur(const runtime::Model& model,
                                             const Elimination& elimination,
                                             const runtime::cpu::CpuWork& work);

}  // namespace topograd
