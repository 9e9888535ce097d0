// Solves with one symmetric positive definite matrix, dense or sparse.
#pragma once

#include "../linear/factor/elimination.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <memory>
#include <optional>

namespace topograd {

/// A factor of H with rows and columns scaled to a unit diagonal, by components: columns that no
/// entry joins with others do not disturb them.
class SymmetricSolver {
 public:
  /// The column at which a matrix is indefinite, or singular as a whole.
  struct Failure {
    std::uint32_t column = 0;
    double pivot = 0;  ///< of the scaled matrix, or the smallest eigenvalue over the largest
  };
  /// What a positive semidefinite matrix says about one unknown of H u = b.
  enum class Unknown : std::uint8_t {
    determined,
    singular,  ///< not unique
    absent,    ///< no entry is of it
  };

  ///   lower    lower triangle with all diagonal entries
  ///   threads  0 = all
  SymmetricSolver(const SparseMatrix& lower, int threads);
  ~SymmetricSolver();
  SymmetricSolver(SymmetricSolver&&) noexcept;
  SymmetricSolver& operator=(SymmetricSolver&&) noexcept;

  /// Empty if the matrix is positive semidefinite in working precision and determines an unknown;
  /// else solve() must not follow.
  const std::optional<Failure>& failure() const;
  Unknown unknown(Eigen::Index column) const;
  /// Solves for the unknowns that are determined; others are one choice of many, or 0 if absent.
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
