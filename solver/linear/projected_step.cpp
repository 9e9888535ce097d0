// Steps within bounds.
#include "projected_step.hpp"

#include "../step_control/convergence.hpp"
#include "../step_control/line_search.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

// Armijo's constant, bounds of one contraction, and number of trials: Ceres' defaults.
constexpr double kSufficientDecrease = 1e-4, kLeastContraction = 1e-3, kLargestContraction = 0.6;
constexpr int kMaxTrials = 20;

// Shorter shares of a step than this move nothing, if rounding hides what the whole step does.
constexpr double kLeastHiddenLength = 1e-3;

/// True if rounding hides what the whole step does and promises.
bool is_hidden(double cost, const runtime::StepReport& full) {
  return rounding_hides(cost, full.trial_cost - cost, std::abs(full.slope), Precision::f64);
}

}  // namespace

runtime::StepReport search_projected(
    double cost, const runtime::StepReport& full,
    const std::function<runtime::StepReport(double length)>& move) {
  runtime::StepReport report = full;
  double length = 1;
  const double least = is_hidden(cost, full) ? kLeastHiddenLength : 0;
  for (int k = 0; k < kMaxTrials && length >= least; ++k) {
    if (report.trial_cost <= cost + kSufficientDecrease * full.slope * length) return report;
    const double lowest = parabola_minimiser(full.slope, length, report.trial_cost - cost);
    const double wanted = std::isfinite(lowest) ? lowest : length / 2;
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

runtime::StepReport try_projected(runtime::Engine& engine, const runtime::StepRequest& request,
                                  double cost) {
  runtime::StepRequest asked = request;
  if (asked.rule) asked.rule->min_decrease = kSufficientDecrease;
  const runtime::StepReport full = runtime::damped_steps(engine).try_step(asked);
  if (full.accepted || !std::isfinite(full.model_decrease)) return full;
  return search_projected(cost, full, [&](double length) {
    return runtime::step_lengths(engine).rescale_step(length);
  });
}

runtime::StepReport ProjectedPcgStep::try_step(runtime::Engine& engine,
                                               const runtime::StepRequest& request) {
  return try_projected(engine, request, cost_);
}

}  // namespace topograd
