// Steps along gradients, by engines whose vectors need not leave them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

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
  double decay = 0;     ///< not of coordinates whose gradient has always been 0
  double momentum = 0;  ///< of momentum
};

struct FirstOrderReport {
  double cost = 0;  ///< at the trial point
  double gradient_max_norm = 0, gradient_norm = 0;
  double step_norm = 0;
};

/// Point, trial, gradients, means and the best point stay
/// where its kernels run, in its precision; a step is one submission and one read-back.
class FirstOrderSteps {
 public:
  virtual ~FirstOrderSteps() = default;

  /// Cost and gradient at the engine's point, from which steps are made; it is the best one, and
  /// nothing is known of gradients before.
  virtual FirstOrderReport begin_steps() = 0;
  /// Takes means of gradients, and of their squares, from the host; after begin_steps().
  virtual void set_means(std::span<const double> mean, std::span<const double> square) = 0;
  /// Moves to a trial point, and evaluates cost and gradient there.
  virtual FirstOrderReport try_rule(const FirstOrderRule& rule) = 0;
  /// The trial point becomes the engine's point, and with `best` the best one.
  virtual void keep_trial(bool best) = 0;
  /// The means become 0.
  virtual void forget_gradients() = 0;
  virtual void best_point(std::span<double> x) = 0;
  /// A best point that reached the host, without asking the device; for use after it failed. False,
  /// and x untouched, if there is none.
  virtual bool last_known_best(std::span<double> x) = 0;
};

/// Where x + length d has led. v is one of s₀, y₀, s₁, y₁, ..., d and y, the change of the gradient
/// from x.
struct DescentReport {
  double cost = 0;  ///< at the trial point
  double gradient_max_norm = 0, gradient_norm = 0, x_norm = 0;
  double slope = 0;           ///< d·g, g being the gradient at x
  double direction_norm = 0;  ///< ‖d‖
  /// v·d, v·y, and v times the gradient at the trial point; valid until the next call.
  std::span<const double> with_direction, with_change, with_gradient;
};

/// Descent along directions that are sums of the gradient
/// and of pairs (s, y) of earlier steps and changes of the gradient, as those of L-BFGS are. A
/// trial is one submission, and what comes back are products.
class DescentSteps {
 public:
  virtual ~DescentSteps() = default;

  /// Cost and gradient at the engine's point, with room for `pairs` pairs >= 1, none of which is
  /// there.
  virtual DescentReport begin_descent(std::size_t pairs) = 0;
  /// d = factors[0] g + factors[1] s₀ + factors[2] y₀ + ...; pairs whose factors are 0 are not
  /// read. Looks at x + length d.
  virtual DescentReport try_direction(std::span<const double> factors, double length) = 0;
  /// Looks at another length of the same direction.
  virtual DescentReport try_length(double length) = 0;
  /// The trial point becomes the engine's point; its step and change of the gradient become that
  /// pair, if one is given.
  virtual void keep_descent(std::optional<std::size_t> pair) = 0;
  /// The engine's point.
  virtual void descent_point(std::span<double> x) = 0;
  /// One that reached the host, as FirstOrderSteps::last_known_best().
  virtual bool last_known_descent(std::span<double> x) = 0;
};

/// An ability (abilities.hpp): such steps, by the engine or by one inside of it.
class GradientSteps {
 public:
  virtual ~GradientSteps() = default;

  /// Null where there are none; without `wait` also while their kernels are made, which this
  /// begins. Who is given them sets the engine's point before the first step.
  virtual FirstOrderSteps* first_order_steps(bool wait) = 0;
  virtual DescentSteps* descent_steps(bool wait) = 0;
};

}  // namespace topograd::runtime
