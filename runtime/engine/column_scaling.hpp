// Column scaling and damping of steps on the host.
#pragma once

#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace topograd::runtime {

/// StepRequest::min_diagonal of small problems with scale_free, whose damping does not fall below
/// that of the first point: derivatives that vanish far away do not let an unknown run off there.
inline constexpr double kLeastDiagonalOfSmall = 1;

/// s = 1 / (unit + ‖column‖), or 0 if the sum is 0 or s² overflows.
///
///   unit  1 as in Ceres, or 0
inline double column_scale(double unit, double norm) {
  const double s = 1 / (unit + norm);
  return s > 0 && std::isfinite(s * s) ? s : 0;
}

/// ‖r‖ / |x|: the norm of a column if its unknown, of this size, alone produced the residuals. Only
/// for minimisations with penalties of constraints, whose valleys need a damping of that size.
inline double column_unit(double residual_norm, double size) {
  return size > 0 ? residual_norm / size : 0;
}

/// The scaling of a column in a solve: that of the first point where the column is not 0. Squares
/// of scalings may be given, too.
///
///   before  the scaling so far; 0: none
///   here    column_scale() at the current point
template <class T>
T first_scale(T before, T here) {
  return before > 0 ? before : here;
}

/// g / ‖column‖, given the square of the norm, > 0; infinite where that has overflowed.
inline double scaled_gradient(double g, double square) {
  return std::isinf(square) ? square : g / std::sqrt(square);
}

/// Σ (‖∂r/∂x_k‖ x_k)² over the numbers of a block on a manifold, along its tangent space alone:
/// what their rounding does to the residuals. Columns of P = ∂(x ⊞ δ)/∂δ count as orthogonal.
///
///   square(t)    of the norm of column t of J P
///   entry(k, t)  of P
template <class X, class Square, class Entry>
double squares_along_tangents(const X* x, std::uint32_t width, std::uint32_t tangent,
                              const Square& square, const Entry& entry) {
  double sum = 0;
  for (std::uint32_t t = 0; t < tangent; ++t) {
    double norm = 0, along = 0;
    for (std::uint32_t k = 0; k < width; ++k) {
      const double p = double{entry(k, t)}, moved = p * double{x[k]};
      norm += p * p;
      along += moved * moved;
    }
    if (norm > 0) sum += square(t) * (along / norm / norm);
  }
  return sum;
}

/// 1 if columns that were 0 get their scaling later, 0 if all keep that of the first step.
inline double scales_later(const StepRequest& request) {
  return request.scale_free && request.jacobi_scaling ? 1 : 0;
}

/// Damping of an entry d of the diagonal of JᵀJ: λ clamp(s² d) / s², which is the clamped damping
/// of the scaled system in the original scale; without clamps if s is 0.
template <class T>
T column_damping(T entry, double squared_scale, const StepRequest& request) {
  if (!(squared_scale > 0 && std::isfinite(squared_scale)))
    return static_cast<T>(request.lambda) * (entry > 0 ? entry : T(1));
  const double clamped =
      std::clamp(squared_scale * double{entry}, request.min_diagonal, request.max_diagonal);
  return static_cast<T>(request.lambda * clamped / squared_scale);
}

}  // namespace topograd::runtime
