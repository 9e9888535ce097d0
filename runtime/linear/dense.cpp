// Eigen's decompositions, and the removal of negative eigenvalues.
#include "dense.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>

namespace topograd::runtime {
namespace {

using Eigen::MatrixXd;

template <class Decomposition>
Svd svd_by(const MatrixXd& matrix, SvdVectors vectors) {
  const bool both = vectors == SvdVectors::both;
  const Decomposition svd(matrix, both ? Eigen::ComputeThinU | Eigen::ComputeThinV
                                       : static_cast<unsigned>(Eigen::ComputeThinV));
  Svd out{.values = svd.singularValues(),
          .u = {},
          .v = svd.matrixV(),
          .complete = svd.info() == Eigen::Success};
  if (both) out.u = svd.matrixU();
  return out;
}

}  // namespace

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

Svd accurate_svd(const MatrixXd& matrix, SvdVectors vectors) {
  return svd_by<Eigen::JacobiSVD<MatrixXd>>(matrix, vectors);
}

Svd fast_svd(const MatrixXd& matrix, SvdVectors vectors) {
  return svd_by<Eigen::BDCSVD<MatrixXd>>(matrix, vectors);
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
