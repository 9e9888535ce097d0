// History and termination of the minimisers of scalar objectives.
#include "control.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace topograd {
namespace {

// A change of the cost below this many units of rounding of the initial cost is invisible.
constexpr double kCostRounding = 64;
// Steps without a smaller gradient that end a minimisation whose costs say nothing.
constexpr int kMostIdle = 8;

}  // namespace

GradientNorms norms_of(std::span<const double> gradient) {
  GradientNorms out;
  for (const double g : gradient) {
    // Written so that a NaN is kept.
    out.max = std::abs(g) <= out.max ? out.max : std::abs(g);
    out.squared += g * g;
  }
  return out;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double norm_of(std::span<const double> v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

double cost_unit(const SolverOptions& options) {
  return options.precision == Precision::f32 ? 0x1p-23 : 0x1p-52;
}

double cost_resolution(const SolverOptions& options, double initial_cost, double cost) {
  return std::max(options.function_tolerance * std::abs(cost),
                  kCostRounding * cost_unit(options) * std::abs(initial_cost));
}

DescentControl::DescentControl(const SolverOptions& options, Summary& summary)
    : options_(options), summary_(summary), control_(options, summary) {}

void DescentControl::start(double cost, const GradientNorms& norms) {
  if (!std::isfinite(cost) || !std::isfinite(norms.max)) {
    throw Error(ErrorCode::NonFinite, std::string("minimise: the ") +
                                          (std::isfinite(cost) ? "gradient" : "value") +
                                          " of the objective is not finite at the start");
  }
  summary_.final_cost = cost;
  if (summary_.iterations.empty()) {
    summary_.initial_cost = cost;
    record({.cost = cost}, norms);
  }
  check_limits(norms);
}

void DescentControl::check_limits(const GradientNorms& norms) {
  const double start =
      summary_.iterations.empty() ? 0 : summary_.iterations.front().gradient_max_norm;
  const double unit = options_.scale_free ? SolveControl::kShareOfStart * start : 1;
  control_.check_limits("max |gradient|", norms.max, unit, norms.max);
}

void DescentControl::accepted(IterationSummary iteration, double cost, const GradientNorms& norms,
                              double x_norm, bool monotone) {
  ++summary_.num_successful_steps;
  summary_.num_linear_iterations += iteration.linear_iterations;
  summary_.final_cost = cost;
  iteration.iteration = summary_.num_iterations();
  iteration.cost = cost;
  const double cost_bound = options_.function_tolerance * std::abs(cost);
  const double size = options_.scale_free ? x_norm : x_norm + options_.parameter_tolerance;
  const double step_bound = options_.parameter_tolerance * size;
  monotone = monotone && !ends_by_gradient(options_);
  if (monotone && std::abs(iteration.cost_change) <= cost_bound) {
    control_.converge("function tolerance reached: |cost change|", std::abs(iteration.cost_change),
                      cost_bound);
  } else if (monotone && iteration.step_norm <= step_bound) {
    control_.converge("parameter tolerance reached: step norm", iteration.step_norm, step_bound);
  }
  if (ends_by_gradient(options_)) look_at_gradient(iteration, norms);
  record(iteration, norms);
  check_limits(norms);
}

/// Stops where rounding hides what steps do to the cost, and the gradient falls no more.
void DescentControl::look_at_gradient(const IterationSummary& iteration,
                                      const GradientNorms& norms) {
  const double noise = kCostRounding * cost_unit(options_) * std::abs(summary_.final_cost);
  if (!(std::abs(iteration.cost_change) <= noise)) return;
  idle_ = norms.max < 0.5 * least_gradient_ ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, norms.max);
  if (idle_ >= kMostIdle)
    finish(Termination::CONVERGENCE, "neither the cost nor the gradient falls any more: rounding");
}

void DescentControl::rejected(IterationSummary iteration, const GradientNorms& norms) {
  ++summary_.num_unsuccessful_steps;
  summary_.num_nonfinite_steps += iteration.step_is_nonfinite ? 1 : 0;
  iteration.iteration = summary_.num_iterations();
  iteration.step_is_successful = false;
  iteration.cost = summary_.final_cost;
  record(iteration, norms);
  check_limits(norms);
}

void DescentControl::record(IterationSummary iteration, const GradientNorms& norms) {
  iteration.gradient_max_norm = norms.max;
  iteration.gradient_norm = std::sqrt(norms.squared);
  control_.record(iteration);
}

}  // namespace topograd
