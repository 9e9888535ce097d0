// Decompositions into singular values: the longest templates of Eigen.
#include "dense.hpp"

#include <Eigen/SVD>

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

Svd accurate_svd(const MatrixXd& matrix, SvdVectors vectors) {
  return svd_by<Eigen::JacobiSVD<MatrixXd>>(matrix, vectors);
}

Svd fast_svd(const MatrixXd& matrix, SvdVectors vectors) {
  return svd_by<Eigen::BDCSVD<MatrixXd>>(matrix, vectors);
}

}  // namespace topograd::runtime
