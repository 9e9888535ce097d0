// Decompositions of dense matrices. They are long templates, compiled here alone.
#pragma once

#include <Eigen/Core>

namespace topograd::runtime {

/// Eigenvalues in ascending order, and their eigenvectors by column.
struct SymmetricEigen {
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;
};
/// Of a symmetric matrix without NaN and infinity; reads the lower triangle.
SymmetricEigen symmetric_eigen(const Eigen::MatrixXd& matrix);
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

/// R of A = Q R: min(rows, columns) rows.
Eigen::MatrixXd upper_factor(const Eigen::MatrixXd& matrix);

}  // namespace topograd::runtime
