// Decompositions of dense matrices. They are long templates, compiled here alone.
#pragma once

#include <Eigen/Core>
#include <memory>

namespace topograd::runtime {

/// Eigenvalues of symmetric matrices without NaN and infinity, whose lower triangles it reads.
/// Keeps its memory for the next matrix of the size.
class SymmetricEigen {
 public:
  SymmetricEigen();
  explicit SymmetricEigen(const Eigen::MatrixXd& matrix) : SymmetricEigen() { compute(matrix); }
  SymmetricEigen(SymmetricEigen&&) noexcept;
  SymmetricEigen& operator=(SymmetricEigen&&) noexcept;
  ~SymmetricEigen();

  void compute(const Eigen::MatrixXd& matrix);
  /// In ascending order.
  const Eigen::VectorXd& values() const;
  /// By column.
  const Eigen::MatrixXd& vectors() const;

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
};
/// The eigenvalues alone.
Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& matrix);

/// A = U diag(values) Vᵀ with min(rows, columns) values in descending order.
struct Svd {
  Eigen::VectorXd values;
  Eigen::MatrixXd u, v;   ///< by column; u is empty if it was not asked for
  bool complete = false;  ///< false: entries were not finite
};
enum class SvdVectors : bool { right, both };
/// By Jacobi's rotations: small singular values are accurate, and large matrices take long.
Svd accurate_svd(const Eigen::MatrixXd& matrix, SvdVectors vectors);
/// By bisection of a bidiagonal matrix: singular values are accurate relative to the largest.
Svd fast_svd(const Eigen::MatrixXd& matrix, SvdVectors vectors);

/// y with the least ‖A y − b‖, by QR with exchanges of columns. Columns beyond the rank get 0.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right);
/// The shortest one of these.
///
///   threshold  share of the largest pivot up to which one counts as 0
Eigen::VectorXd shortest_least_squares(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right,
                                       double threshold);

/// R of A = Q R: min(rows, columns) rows.
Eigen::MatrixXd upper_factor(const Eigen::MatrixXd& matrix);

/// Replaces the negative eigenvalues of a packed matrix (its upper triangle, row by row) by 0. A
/// matrix without any keeps its bits; one that is not finite stays as it is.
///
///   packed  n (n + 1) / 2 numbers    eigen  reused memory
void remove_negative_part(Eigen::Index n, double* packed, SymmetricEigen& eigen);

}  // namespace topograd::runtime
