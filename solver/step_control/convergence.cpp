// Verdicts on the last steps of least squares, and steps that the cost cannot judge.
#include "convergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solve_control.hpp"

namespace topograd {
namespace {

// Steps without a smaller gradient that end a minimisation.
constexpr int kMostIdle = 20;
// A rising gradient divides the radius by 2 to this power; a falling one multiplies it by 3.
constexpr int kHalvings = 2;
// A step that leaves all of the gradient but this share was much too short.
constexpr double kUnchanged = 1e-6, kWidening = 100;
// So was one of which the damping keeps back more than this share: it changes the gradient by less
// than rounding does. A gradient that becomes so many times larger shows curvature that the linear
// model does not know, and the region stays smaller from then on.
constexpr double kHeldBack = 0.9, kHeldWidening = 10, kCurves = 2;

// Least ‖r‖ in optimality(), as shares of that at the start: where rounding of J x, √Σ (‖J_i‖
// x_i)², hides smaller ones at the usual tolerance of 1e-10, and elsewhere.
constexpr double kShareOfStart = 1e-4, kRounding = 1e-5, kLeastShareOfStart = 1e-10;
// Residuals that are so small a share of those at the start that rounding of the start cannot be in
// them. The start counts as at most this many times ‖r‖ then.
constexpr double kForgotten = 1e-18, kMostOverResiduals = 1e6;
// Units of rounding in the sum of squares.
constexpr double kSumUnits = 8;
// Share from which the damping decides on a step, and gain from which the model is exact enough for
// less of it.
constexpr double kDamped = 0.05, kExactGain = 0.9;
// Changes of the cost below this many units of its rounding say nothing about a step.
constexpr double kHiddenUnits = 64;
// The cosine may be so many times that of a step which gains the tolerance.
constexpr double kMostOverTolerance = 10;

}  // namespace

HiddenSteps::HiddenSteps(const SolverOptions& options)
    : judges_(ends_by_gradient(options)), precision_(options.precision) {}

bool HiddenSteps::hides(double cost, double cost_change, double model_decrease) const {
  return judges_ && rounding_hides(cost, cost_change, model_decrease, precision_);
}

bool HiddenSteps::follow(double gradient_before, double gradient, double damped_share,
                         TrustRegion& region) {
  const bool curves = gradient > kCurves * gradient_before;
  if (curves) most_radius_ = std::min(most_radius_, region.radius() / 2);
  const bool held_back = damped_share > kHeldBack && !curves;
  const bool unchanged = std::abs(gradient - gradient_before) <= kUnchanged * gradient_before;
  const bool widens = unchanged ? region.widen(kWidening, std::numeric_limits<double>::infinity())
                                : held_back && region.widen(kHeldWidening, most_radius_);
  if (!widens && !unchanged) {
    if (gradient < gradient_before)
      region.accepted(1, 0);
    else
      for (int halving = 0; halving < kHalvings; ++halving) region.invalid();
  }
  idle_ = gradient < 0.5 * least_gradient_ ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, gradient);
  return idle_ >= kMostIdle;
}

double rounding_unit(Precision precision) {
  return precision == Precision::f32 ? 0x1p-23 : 0x1p-52;
}

bool rounding_hides(double cost, double change, double promised, Precision precision) {
  const double noise = kHiddenUnits * rounding_unit(precision) * std::abs(cost);
  return std::abs(change) <= noise && promised <= noise;
}

double residual_unit(const runtime::PointReport& point, const ResidualNorms& norms) {
  const double hidden = std::min(kShareOfStart * norms.start, kRounding * point.scaled_x_norm);
  return std::max({norms.here, hidden, kLeastShareOfStart * norms.start});
}

double optimality(const runtime::PointReport& point, const ResidualNorms& norms, double unit) {
  if (point.scaled_gradient_max == 0) return 0;
  if (norms.here < kForgotten * norms.start)
    unit =
        std::max(std::min(unit, kMostOverResiduals * norms.here), kRounding * point.scaled_x_norm);
  return point.scaled_gradient_max / unit;
}

double largest_cosine(const runtime::PointReport& point, const ResidualNorms& norms) {
  if (point.scaled_gradient_max == 0) return 0;
  return point.scaled_gradient_max / std::max(norms.here, kLeastShareOfStart * norms.start);
}

double sum_noise(double cost, Precision precision) {
  return kSumUnits * rounding_unit(precision) * std::abs(cost);
}

double cost_noise(const runtime::PointReport& point, double norm, Precision precision) {
  const double of_terms = rounding_unit(precision) * point.scaled_x_norm;
  return sum_noise(point.cost, precision) + of_terms * (norm + of_terms / 2);
}

double damped_share(const runtime::StepReport& step) {
  const double whole = step.length < 1 ? step.model_decrease / (step.length * (2 - step.length))
                                       : step.model_decrease;
  if (!(step.slope < 0)) return std::numeric_limits<double>::quiet_NaN();
  return 2 * whole / -step.slope - 1;
}

bool damping_hides_more(const LastStep& step) {
  if (!(step.damped_share > kDamped)) return false;
  const bool hidden = std::abs(step.change) <= step.noise && step.decrease <= step.noise;
  return hidden || step.change >= kExactGain * step.decrease;
}

double most_optimality(double share) { return kMostOverTolerance * std::sqrt(share); }

bool out_of_range(const runtime::PointReport& point) {
  return std::isinf(point.scaled_gradient_max) ||
         (point.gradient_max_norm > 0 && point.scaled_gradient_max == 0 &&
          point.scaled_x_norm == 0);
}

}  // namespace topograd
