// Solves with one symmetric positive definite matrix, dense or sparse.
#pragma once

#include "../linear/factor/elimination.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <memory>
#include <optional>

namespace topograd {

/// A factor of H with rows and columns scaled to a unit diagonal.
class SymmetricSolver {
 public:
  /// The column at which a matrix is singular or indefinite.
  struct Failure {
    std::uint32_t column = 0;
    double pivot = 0;  ///< of the scaled matrix, or the smallest eigenvalue over the largest
  };

  ///   lower    lower triangle with all diagonal entries
  ///   threads  0 = all
  SymmetricSolver(const SparseMatrix& lower, int threads);
  ~SymmetricSolver();
  SymmetricSolver(SymmetricSolver&&) noexcept;
  SymmetricSolver& operator=(SymmetricSolver&&) noexcept;

  /// Empty if the matrix is positive definite in working precision; else solve() must not follow.
  const std::optional<Failure>& failure() const;
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
