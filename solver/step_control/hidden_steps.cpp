// Steps that the cost cannot judge.
#include "hidden_steps.hpp"

#include "convergence.hpp"
#include "solve_control.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

// Changes of the cost below this many units of its rounding say nothing about a step.
constexpr double kHiddenUnits = 64;
// Steps without a smaller gradient that end a minimisation.
constexpr int kMostIdle = 20;
// A rising gradient divides the radius by 2 to this power; a falling one multiplies it by 3.
constexpr int kHalvings = 2;

}  // namespace

HiddenSteps::HiddenSteps(const SolverOptions& options)
    : noise_(ends_by_gradient(options) ? kHiddenUnits * rounding_unit(options.precision) : -1) {}

bool HiddenSteps::hides(double cost, double cost_change, double model_decrease) const {
  const double noise = noise_ * std::abs(cost);
  return noise_ > 0 && model_decrease <= noise && std::abs(cost_change) <= noise;
}

bool HiddenSteps::follow(double gradient_before, double gradient, TrustRegion& region) {
  if (gradient < gradient_before) {
    region.accepted(1, 0);
  } else {
    for (int halving = 0; halving < kHalvings; ++halving) region.invalid();
  }
  idle_ = gradient < 0.5 * least_gradient_ ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, gradient);
  return idle_ >= kMostIdle;
}

}  // namespace topograd
