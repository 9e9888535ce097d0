// Eigen's sparse matrices as the factorisation reads them.
#pragma once

#include "../../../runtime/factor/block_graph.hpp"
#include "elimination.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <span>

namespace topograd {

/// The pattern of a compressed lower triangle, in the matrix's memory.
inline runtime::LowerPattern pattern_of(const SparseMatrix& lower) {
  return {{lower.outerIndexPtr(), static_cast<std::size_t>(lower.cols()) + 1},
          {lower.innerIndexPtr(), static_cast<std::size_t>(lower.nonZeros())}};
}

/// Its numbers, in the order of the pattern.
inline std::span<const double> values_of(const SparseMatrix& lower) {
  return {lower.valuePtr(), static_cast<std::size_t>(lower.nonZeros())};
}

/// A compressed lower triangle A with rows and columns scaled: S A S with S = diag(scale).
inline SparseMatrix scaled_by(const Eigen::VectorXd& scale, const SparseMatrix& lower) {
  SparseMatrix out = lower;
  double* const values = out.valuePtr();
  for (Eigen::Index c = 0; c < out.cols(); ++c)
    for (int at = out.outerIndexPtr()[c]; at < out.outerIndexPtr()[c + 1]; ++at)
      values[at] *= scale[c] * scale[out.innerIndexPtr()[at]];
  return out;
}

}  // namespace topograd
