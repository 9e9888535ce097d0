// A scalar function with its gradient, as the minimisers of scalar objectives see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace topograd {

/// What is minimised. Callables run on the calling thread; what they throw ends the minimisation
/// and reaches its caller.
struct Objective {
  std::size_t size = 0;          ///< numbers of a point
  std::size_t tangent_size = 0;  ///< numbers of a step and of a gradient; 0 = size

  /// The value at x; writes the gradient unless `gradient` is empty. A value or gradient that is
  /// not finite says that x cannot be used: a line search goes nearer to where it came from.
  std::function<double(std::span<const double> x, std::span<double> gradient)> evaluate;

  /// result = x ⊕ step, for points on a manifold; empty stands for addition.
  std::function<void(std::span<const double> x, std::span<const double> step,
                     std::span<double> result)>
      plus;

  /// Non-zero where a number of a step stays 0; empty stands for nowhere.
  std::span<const std::uint8_t> constant = {};

  /// result = x ⊕ step.
  void move(std::span<const double> x, std::span<const double> step,
            std::span<double> result) const {
    if (plus) return plus(x, step, result);
    for (std::size_t k = 0; k < x.size(); ++k) result[k] = x[k] + step[k];
  }
  std::size_t steps() const { return tangent_size == 0 ? size : tangent_size; }
};

}  // namespace topograd
