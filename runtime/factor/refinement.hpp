// Pivots of a sparse factorisation, and its solutions, refined until they are exact enough.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "fill_order.hpp"

namespace topograd::runtime {

/// The signs that pivots may have.
enum class AdmittedPivots {
  positive,  ///< of matrices that are positive definite or semidefinite, such as JᵀJ + λD
  nonzero,   ///< negative ones, too: the matrix may be indefinite
};

/// The static rule for pivots, which are taken in the order of the plan. A pivot vanishes if it is
/// at most `vanishing` times the diagonal entry of the matrix in size: rounding alone decides its
/// sign. Its row and column take no part then, so that its unknown is 0: the solution of the other
/// equations, which solves all of them if the right side is in the range of the matrix. Every other
/// pivot is admitted or refused.
///
/// The order does not depend on values, so that backward stability needs more than nonzero pivots.
/// Positive definite matrices have it. Quasidefinite ones, [H Aᵀ; A −C] with H and C positive
/// definite, have nonzero pivots in every order, and an error in proportion to
/// max(‖AᵀC⁻¹A‖/‖H‖, ‖AH⁻¹Aᵀ‖/‖C‖) and the condition. Nothing bounds it for other indefinite
/// matrices: solve_refined() (refinement.hpp) finds out.
///
///   vanishing  0: zero is refused, too
///
/// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 10.3;
/// Vanderbei, Symmetric Quasidefinite Matrices, SIAM J. Optim. 5 (1995); Gill, Saunders, Shinnerl,
/// On the Stability of Cholesky Factorization for Symmetric Quasidefinite Systems, SIAM J. Matrix
/// Anal. Appl. 17 (1996).
struct PivotRule {
  double vanishing = 0;
  AdmittedPivots admitted = AdmittedPivots::positive;
};

/// The share n ε of LAPACK's pstrf, at most 1e-10 or 16 ε: smaller pivots than these may still tell
/// more than rounding.
constexpr double vanishing_share(std::uint64_t unknowns, double epsilon) {
  return std::min(static_cast<double>(unknowns) * epsilon, std::max(1e-10, 16 * epsilon));
}

/// How a factorisation ended.
enum class FactorEnd {
  complete,
  not_positive,  ///< a pivot is zero, or negative where these are not admitted; it does not vanish
  not_finite,    ///< a pivot is NaN or infinite
};

struct FactorReport {
  FactorEnd end = FactorEnd::complete;
  std::uint32_t column = 0;  ///< of the matrix: where it ended
  double pivot = 0;          ///< there
  /// Pivots of a complete factorisation: the inertia of the matrix, by Sylvester's law, if rounding
  /// has not changed a sign.
  std::uint64_t positive = 0, negative = 0, vanished = 0;
};

/// The lower triangle of a symmetric matrix.
struct SymmetricMatrix {
  LowerPattern lower;
  std::span<const double> values;
};

struct RefinementRule {
  int most = 40;            ///< steps
  double accurate = 1e-12;  ///< backward error of an accurate solution, at most
};

struct SolveReport {
  bool accurate = false;
  int refinements = 0;
  double backward_error = 0;  ///< max_i |b − Ax|_i / max_i (|A| |x| + |b|)_i
};

/// Solves A x = b by `solve`, which is a factor of A or of a matrix near it, and refines x until
/// its backward error is that of rounding, or no longer halves. If the solutions of `solve` are not
/// finite, x is 0 and not accurate.
///
///   solve  (right, solution): solution = F⁻¹ right
///
/// Cost: a solution and a product with A for each step. Source: Higham, Accuracy and Stability of
/// Numerical Algorithms, 2nd ed., chapter 12.
SolveReport solve_refined(
    const SymmetricMatrix& a, std::span<const double> right, std::span<double> solution,
    const std::function<void(std::span<const double>, std::span<double>)>& solve,
    const RefinementRule& rule = {});

}  // namespace topograd::runtime
