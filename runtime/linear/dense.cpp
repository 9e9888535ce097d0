// Eigen's decompositions, and the removal of negative eigenvalues.
#include "dense.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>

namespace topograd::runtime {

using Eigen::MatrixXd;

struct SymmetricEigen::Solver {
  Eigen::SelfAdjointEigenSolver<MatrixXd> eigen;
};

SymmetricEigen::SymmetricEigen() : solver_(std::make_unique<Solver>()) {}
SymmetricEigen::SymmetricEigen(SymmetricEigen&&) noexcept = default;
SymmetricEigen& SymmetricEigen::operator=(SymmetricEigen&&) noexcept = default;
SymmetricEigen::~SymmetricEigen() = default;

void SymmetricEigen::compute(const MatrixXd& matrix) { solver_->eigen.compute(matrix); }
const Eigen::VectorXd& SymmetricEigen::values() const { return solver_->eigen.eigenvalues(); }
const MatrixXd& SymmetricEigen::vectors() const { return solver_->eigen.eigenvectors(); }

Eigen::VectorXd symmetric_eigenvalues(const MatrixXd& matrix) {
  return Eigen::SelfAdjointEigenSolver<MatrixXd>(matrix, Eigen::EigenvaluesOnly).eigenvalues();
}

Eigen::VectorXd least_squares(const MatrixXd& matrix, const Eigen::VectorXd& right) {
  return Eigen::ColPivHouseholderQR<MatrixXd>(matrix).solve(right);
}

Eigen::VectorXd shortest_least_squares(const MatrixXd& matrix, const Eigen::VectorXd& right,
                                       double threshold) {
  Eigen::CompleteOrthogonalDecomposition<MatrixXd> qr(matrix.rows(), matrix.cols());
  qr.setThreshold(threshold);
  return qr.compute(matrix).solve(right);
}

MatrixXd upper_factor(const MatrixXd& matrix) {
  return Eigen::HouseholderQR<MatrixXd>(matrix)
      .matrixQR()
      .topRows(std::min(matrix.rows(), matrix.cols()))
      .triangularView<Eigen::Upper>();
}

void remove_negative_part(Eigen::Index n, double* packed, SymmetricEigen& eigen) {
  Eigen::MatrixXd full(n, n);
  double* entry = packed;
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = i; j < n; ++j) full(j, i) = *entry++;
  }
  // The eigenvalue solver requires finite matrices.
  if (!full.triangularView<Eigen::Lower>().toDenseMatrix().allFinite()) return;
  eigen.compute(full);
  const Eigen::VectorXd negative = eigen.values().cwiseMin(0.0);
  if (negative[0] == 0) return;
  const Eigen::MatrixXd& v = eigen.vectors();
  const Eigen::MatrixXd part = v * negative.asDiagonal() * v.transpose();
  entry = packed;
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = i; j < n; ++j) *entry++ -= part(i, j);
  }
}

}  // namespace topograd::runtime
