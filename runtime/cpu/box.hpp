// The box that holds the unknowns of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// Bounds by scalar; empty: the unknowns have none.
struct Box {
  std::vector<double> lower, upper;

  bool empty() const { return lower.empty(); }
  /// Clamps x to the box. A NaN stays.
  void clamp(std::span<double> x) const {
    for (std::size_t i = 0; i < lower.size(); ++i) {
      if (x[i] < lower[i]) x[i] = lower[i];
      if (x[i] > upper[i]) x[i] = upper[i];
    }
  }
  /// True if scalar i is on a bound against which the gradient pushes. The bounds are rounded to T
  /// as x is.
  template <class T>
  bool holds(std::size_t i, T x, T gradient) const {
    return (x <= static_cast<T>(lower[i]) && gradient > 0) ||
           (x >= static_cast<T>(upper[i]) && gradient < 0);
  }
};

}  // namespace topograd::runtime::cpu
