// Steps of given size along gradients, by engines whose vectors need not leave them.
#pragma once

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

/// What an engine may be beside an Engine. Point, trial, gradients, means and the best point stay
/// where its kernels run, in its precision; a step is one submission and one read-back.
class FirstOrderSteps {
 public:
  virtual ~FirstOrderSteps() = default;

  /// Cost and gradient at the engine's point, from which steps are made; it is the best one, and
  /// nothing is known of gradients before.
  virtual FirstOrderReport begin_steps() = 0;
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

}  // namespace topograd::runtime
