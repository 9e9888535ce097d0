// Eigenvalues of packed matrices.
#include "negative_part.hpp"

namespace topograd::runtime {

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
