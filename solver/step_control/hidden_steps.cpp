// Steps that the cost cannot judge.
#include "hidden_steps.hpp"

#include "convergence.hpp"
#include "solve_control.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

// Steps without a smaller gradient that end a minimisation.
constexpr int kMostIdle = 20;
// A rising gradient divides the radius by 2 to this power; a falling one multiplies it by 3.
constexpr int kHalvings = 2;
// A step that leaves all of the gradient but this share was much too short.
constexpr double kUnchanged = 1e-6, kWidening = 100;

}  // namespace

HiddenSteps::HiddenSteps(const SolverOptions& options)
    : judges_(ends_by_gradient(options)), precision_(options.precision) {}

bool HiddenSteps::hides(double cost, double cost_change, double model_decrease) const {
  return judges_ && rounding_hides(cost, cost_change, model_decrease, precision_);
}

bool HiddenSteps::follow(double gradient_before, double gradient, TrustRegion& region) {
  if (std::abs(gradient - gradient_before) <= kUnchanged * gradient_before) {
    region.widen(kWidening, std::numeric_limits<double>::infinity());
  } else if (gradient < gradient_before) {
    region.accepted(1, 0);
  } else {
    for (int halving = 0; halving < kHalvings; ++halving) region.invalid();
  }
  idle_ = gradient < 0.5 * least_gradient_ ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, gradient);
  return idle_ >= kMostIdle;
}

}  // namespace topograd
