// How a sparse Cholesky factorisation ended, on any backend.
#pragma once

#include <cstdint>

namespace topograd::runtime {

/// How a factorisation ended.
enum class FactorEnd {
  complete,
  not_positive,  ///< a pivot is zero or negative
  not_finite,    ///< a pivot is NaN or infinite
};

struct FactorReport {
  FactorEnd end = FactorEnd::complete;
  std::uint32_t column = 0;  ///< of the matrix: where it ended
  double pivot = 0;          ///< there
};

}  // namespace topograd::runtime
