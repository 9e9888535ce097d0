// The box that holds the unknowns of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// Bounds by scalar; empty: the unknowns have none. Where x is in T, bounds are rounded to T like
/// x, so that x stays exactly on its bound. Comparisons keep NaN.
struct Box {
  std::vector<double> lower, upper;

  bool empty() const { return lower.empty(); }
  /// Clamps x to the box.
  void clamp(std::span<double> x) const {
    for (std::size_t i = 0; i < lower.size(); ++i) {
      if (x[i] < lower[i]) x[i] = lower[i];
      if (x[i] > upper[i]) x[i] = upper[i];
    }
  }
  /// The number nearest to x that scalar i may have.
  template <class T>
  T nearest(std::size_t i, T x) const {
    if (empty()) return x;
    if (x < static_cast<T>(lower[i])) x = static_cast<T>(lower[i]);
    if (x > static_cast<T>(upper[i])) x = static_cast<T>(upper[i]);
    return x;
  }
  /// The part of the gradient's entry that the box leaves free: x minus the nearest to x − g.
  template <class T>
  T projected_gradient(std::size_t i, T x, T g) const {
    if (empty()) return g;
    const T low = static_cast<T>(lower[i]), high = static_cast<T>(upper[i]);
    const T moved = x - g;
    return moved < low ? x - low : moved > high ? x - high : g;
  }
  /// True if scalar i is on a bound against which the gradient pushes.
  template <class T>
  bool holds(std::size_t i, T x, T gradient) const {
    return (x <= static_cast<T>(lower[i]) && gradient > 0) ||
           (x >= static_cast<T>(upper[i]) && gradient < 0);
  }
};

}  // namespace topograd::runtime::cpu
