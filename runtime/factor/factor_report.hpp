// Rule for the pivots of a sparse Cholesky factorisation, and its end, on any backend.
#pragma once

#include <algorithm>
#include <cstdint>

namespace topograd::runtime {

/// The static rule for pivots of matrices that are positive semidefinite, such as JᵀJ + λD. A pivot
/// vanishes if it is at most `vanishing` times the diagonal entry of the matrix in size: rounding
/// alone decides its sign. Its row and column take no part then, so that its unknown is 0: the
/// solution of the other equations, which solves all of them if the right side is in the range of
/// the matrix. Every other pivot is positive or refused.
///
///   vanishing  0: every pivot that is not positive is refused
///
/// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 10.3.
struct PivotRule {
  double vanishing = 0;
};

/// The share n ε of LAPACK's pstrf, at most 1e-10 or 16 ε: smaller pivots than these may still tell
/// more than rounding.
constexpr double vanishing_share(std::uint64_t unknowns, double epsilon) {
  return std::min(static_cast<double>(unknowns) * epsilon, std::max(1e-10, 16 * epsilon));
}

/// How a factorisation ended.
enum class FactorEnd {
  complete,
  not_positive,  ///< a pivot is zero or negative, and does not vanish
  not_finite,    ///< a pivot is NaN or infinite
};

struct FactorReport {
  FactorEnd end = FactorEnd::complete;
  std::uint32_t column = 0;    ///< of the matrix: where it ended
  double pivot = 0;            ///< there
  std::uint64_t vanished = 0;  ///< pivots, of a complete factorisation
};

}  // namespace topograd::runtime
