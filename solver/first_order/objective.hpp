// A scalar function with its gradient, the input of the minimisers of scalar objectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace topograd {

/// True if a coordinate is in a set that may be empty.
inline bool is_held(std::span<const std::uint8_t> held, std::size_t k) {
  return !held.empty() && held[k] != 0;
}

/// Access to the best point while it is on a device.
struct BestElsewhere {
  std::function<void()> read;  ///< copies the point to the minimisation's x; empty: x has it

  /// Sets `read` while it lives; `elsewhere` may be null.
  class Scope {
   public:
    Scope(BestElsewhere* elsewhere, std::function<void()> read) : elsewhere_(elsewhere) {
      if (elsewhere_ != nullptr) elsewhere_->read = std::move(read);
    }
    ~Scope() {
      if (elsewhere_ != nullptr) elsewhere_->read = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BestElsewhere* elsewhere_;
  };
};

/// The function to minimise. Callables run on the calling thread; their exceptions end the
/// minimisation and reach its caller.
struct Objective {
  std::size_t size = 0;          ///< numbers of a point
  std::size_t tangent_size = 0;  ///< numbers of a step and of a gradient; 0 = size

  /// Returns the value at x; writes the gradient unless `gradient` is empty. If a value or gradient
  /// is not finite, x is unusable and a line search takes a shorter step.
  std::function<double(std::span<const double> x, std::span<double> gradient)> evaluate;

  /// result = x ⊕ step, for points on a manifold; empty means addition.
  std::function<void(std::span<const double> x, std::span<const double> step,
                     std::span<double> result)>
      plus;

  /// Non-zero for fixed coordinates of a step; empty means none.
  std::span<const std::uint8_t> constant = {};

  /// The box of the points, with infinities; both empty: none. Not together with `plus`.
  std::span<const double> lower = {}, upper = {};
  bool bounded() const { return !lower.empty(); }

  /// result = x ⊕ step, projected on the box.
  void move(std::span<const double> x, std::span<const double> step,
            std::span<double> result) const {
    if (plus) return plus(x, step, result);
    for (std::size_t k = 0; k < x.size(); ++k) result[k] = x[k] + step[k];
    for (std::size_t k = 0; k < lower.size(); ++k) {
      if (result[k] < lower[k]) result[k] = lower[k];
      if (result[k] > upper[k]) result[k] = upper[k];
    }
  }
  std::size_t steps() const { return tangent_size == 0 ? size : tangent_size; }
};

}  // namespace topograd
