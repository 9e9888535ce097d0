// Steps within bounds.
#include <topograd/solver/linear/projected_step.hpp>

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

// Armijo's constant, bounds of one contraction, and trials: Ceres' defaults.
constexpr double kSufficientDecrease = 1e-4, kLeastContraction = 1e-3, kLargestContraction = 0.6;
constexpr int kMaxTrials = 20;

}  // namespace

runtime::StepReport search_projected(
    double cost, const runtime::StepReport& full,
    const std::function<runtime::StepReport(double length)>& move) {
  runtime::StepReport report = full;
  double length = 1;
  for (int k = 0; k < kMaxTrials; ++k) {
    if (report.trial_cost <= cost + kSufficientDecrease * full.slope * length) return report;
    // The minimum of the parabola through cost, slope and trial; halves where there is no value.
    const double bend = report.trial_cost - cost - full.slope * length;
    const double wanted =
        std::isfinite(bend) && bend > 0 ? -full.slope * length * length / (2 * bend) : length / 2;
    length = std::clamp(wanted, kLeastContraction * length, kLargestContraction * length);
    const runtime::StepReport moved = move(length);
    report.step_norm = moved.step_norm;
    report.trial_cost = moved.trial_cost;
  }
  const runtime::StepReport whole = move(1);
  report.step_norm = whole.step_norm;
  report.trial_cost = whole.trial_cost;
  return report;
}

runtime::StepReport ProjectedPcgStep::try_step(runtime::Engine& engine,
                                               const runtime::StepRequest& request) {
  const runtime::StepReport full = engine.try_step(request);
  if (!std::isfinite(full.model_decrease)) return full;
  return search_projected(cost_, full, [&](double length) { return engine.rescale_step(length); });
}

}  // namespace topograd
