// Eigen's sparse matrices as the factorisation reads them.
#pragma once

#include "../../../runtime/factor/block_graph.hpp"
#include "elimination.hpp"

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

}  // namespace topograd
