// Column scaling and damping of steps on the host.
#pragma once

#include "engine.hpp"

#include <algorithm>

namespace topograd::runtime {

/// s = 1 / (unit + ‖column‖), or 0 if the sum is 0.
///
///   unit  1 as in Ceres, 0, or column_unit(), which replaces 1 in the unit of the column, >= 0
inline double column_scale(double unit, double norm) {
  const double sum = unit + norm;
  return sum > 0 ? 1 / sum : 0;
}

/// ‖r‖ / |x|: the norm of a column if its unknown, of this size, alone produced the residuals.
inline double column_unit(double residual_norm, double size) {
  return size > 0 ? residual_norm / size : 0;
}

/// Damping of an entry d of the diagonal of JᵀJ: λ clamp(s² d) / s², which is the clamped damping
/// of the scaled system in the original scale; without clamps if s is 0.
template <class T>
T column_damping(T entry, double squared_scale, const StepRequest& request) {
  if (squared_scale == 0) return static_cast<T>(request.lambda) * (entry > 0 ? entry : T(1));
  const double clamped =
      std::clamp(squared_scale * double{entry}, request.min_diagonal, request.max_diagonal);
  return static_cast<T>(request.lambda * clamped / squared_scale);
}

}  // namespace topograd::runtime
