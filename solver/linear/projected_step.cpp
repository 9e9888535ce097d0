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

ProjectedSearch::ProjectedSearch(double cost, const runtime::StepReport& full)
    : cost_(cost), slope_(full.slope), least_(is_hidden(cost, full) ? kLeastHiddenLength : 0) {}

std::optional<double> ProjectedSearch::next(double trial_cost) {
  if (whole_) return std::nullopt;
  if (trials_ == kMaxTrials || length_ < least_) {
    whole_ = true;
    return length_ = 1;
  }
  if (trial_cost <= cost_ + kSufficientDecrease * slope_ * length_) return std::nullopt;
  const double lowest = parabola_minimiser(slope_, length_, trial_cost - cost_);
  const double wanted = std::isfinite(lowest) ? lowest : length_ / 2;
  length_ = std::clamp(wanted, kLeastContraction * length_, kLargestContraction * length_);
  ++trials_;
  return length_;
}

runtime::StepReport search_projected(
    double cost, const runtime::StepReport& full,
    const std::function<runtime::StepReport(double length)>& move) {
  runtime::StepReport report = full;
  ProjectedSearch search(cost, full);
  while (const std::optional<double> length = search.next(report.trial_cost)) {
    const runtime::StepReport moved = move(*length);
    report.step_norm = moved.step_norm;
    report.trial_cost = moved.trial_cost;
  }
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
