// Steps along gradients by engines that keep all vectors on their device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace topograd::ir {
class StateRecord;
}

namespace topograd::runtime {

/// A step from the history of gradients.
struct FirstOrderRule {
  enum class Kind {
    adam,     ///< m = β₁ m + (1 − β₁) g, v = β₂ v + (1 − β₂) g²,
              ///< δ = −rate (m / mean_bias) / (√(v / square_bias) + ε) − decay x
    momentum  ///< m = momentum m + g, δ = −rate m
  };
  Kind kind = Kind::adam;
  double rate = 0;
  double beta1 = 0, beta2 = 0;            ///< of adam
  double mean_bias = 1, square_bias = 1;  ///< 1 − β₁ᵗ and 1 − β₂ᵗ for the t-th step
  double epsilon = 0;
  double decay = 0;     ///< not for coordinates whose gradient has always been 0
  double momentum = 0;  ///< of momentum
};

struct FirstOrderReport {
  double cost = 0;  ///< at the trial point
  double gradient_max_norm = 0, gradient_norm = 0;
  double step_norm = 0;
};

/// Steps of first-order methods. Point, trial, gradients, means and the best point stay where its
/// kernels run, in its precision; a step is one submission and one readback.
class FirstOrderSteps {
 public:
  virtual ~FirstOrderSteps() = default;

  /// Computes cost and gradient at the engine's point, where steps start. It becomes the best
  /// point, and the history of gradients is empty.
  virtual FirstOrderReport begin_steps() = 0;
  /// Sets the means of gradients and of their squares from the host; after begin_steps().
  virtual void set_means(std::span<const double> mean, std::span<const double> square) = 0;
  /// Moves to a trial point and evaluates cost and gradient there.
  virtual FirstOrderReport try_rule(const FirstOrderRule& rule) = 0;
  /// Makes the trial point the engine's point and, if `best`, the best one.
  virtual void keep_trial(bool best) = 0;
  /// Sets the means to 0.
  virtual void forget_gradients() = 0;
  /// Saves or restores the means and the best point, after begin_steps().
  virtual void transfer(ir::StateRecord& record) = 0;
  /// Copies the engine's point.
  virtual void current_point(std::span<double> x) = 0;
  virtual void best_point(std::span<double> x) = 0;
  /// Copies a best point that reached the host, without asking the device; for use after it failed.
  /// Returns false and leaves x unchanged if there is none.
  virtual bool last_known_best(std::span<double> x) = 0;
};

/// Results at x + length d. v is one of s₀, y₀, s₁, y₁, ..., d and the change y of the gradient
/// from x.
struct DescentReport {
  double cost = 0;  ///< at the trial point
  double gradient_max_norm = 0, gradient_norm = 0, x_norm = 0;
  double slope = 0;           ///< d·g, g being the gradient at x
  double direction_norm = 0;  ///< ‖d‖
  /// Dot products of v with d, y, and the gradient at the trial point; valid until the next call.
  std::span<const double> with_direction, with_change, with_gradient;
};

/// Descent along sums of the gradient and of pairs (s, y) of earlier steps and changes of the
/// gradient, as in L-BFGS. A trial is one submission, and only dot products are read back.
class DescentSteps {
 public:
  virtual ~DescentSteps() = default;

  /// Computes cost and gradient at the engine's point, with empty storage for `pairs` >= 1 pairs.
  virtual DescentReport begin_descent(std::size_t pairs) = 0;
  /// Sets d = factors[0] g + factors[1] s₀ + factors[2] y₀ + ... and evaluates at x + length d.
  /// Pairs with factors 0 are not read.
  virtual DescentReport try_direction(std::span<const double> factors, double length) = 0;
  /// Evaluates another length of the same direction.
  virtual DescentReport try_length(double length) = 0;
  /// Makes the trial point the engine's point; stores its step and gradient change as pair `pair`,
  /// if any.
  virtual void keep_descent(std::optional<std::size_t> pair) = 0;
  /// Saves or restores the pairs, after begin_descent().
  virtual void transfer(ir::StateRecord& record) = 0;
  /// Copies the engine's point.
  virtual void descent_point(std::span<double> x) = 0;
  /// Copies a point that reached the host, like FirstOrderSteps::last_known_best().
  virtual bool last_known_descent(std::span<double> x) = 0;
};

/// An ability (engine.hpp): gradient steps by the engine or by one that it wraps.
class GradientSteps {
 public:
  virtual ~GradientSteps() = default;

  /// Null if there are none; without `wait` also while their kernels are compiled, which this
  /// starts. The caller sets the engine's point before the first step.
  virtual FirstOrderSteps* first_order_steps(bool wait) = 0;
  virtual DescentSteps* descent_steps(bool wait) = 0;
};

}  // namespace topograd::runtime
