// History and termination of the minimisers of scalar objectives.
#include "control.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/state_record.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace topograd {
namespace {

// Steps whose decrease must be small together: a share of all, and at least this many.
constexpr int kLeastWindow = 5, kWindowShare = 10;
// The share of the decrease since the start that a small step may still promise, as a share of the
// function tolerance.
constexpr double kPromise = 1e-6;
// A scale-free first step changes the cost by this share of it at least.
constexpr double kLeastChange = 1e-10;
// Steps without a smaller gradient that end a minimisation whose costs say nothing.
constexpr int kMostIdle = 8;
// Recent steps at least.
constexpr std::size_t kLeastRecent = 10;

/// The first of the steps after the steep ones, in a history of so many, and of the last quarter to
/// half, which are ten at least.
std::size_t first_gentle(std::size_t size) { return std::bit_floor(size) / 8; }
std::size_t first_recent(std::size_t size) {
  return size <= kLeastRecent ? 0 : std::min(std::bit_floor(size) / 2, size - kLeastRecent);
}

}  // namespace

GradientNorms norms_of(std::span<const double> gradient) {
  GradientNorms out;
  for (const double g : gradient) {
    out.max = std::abs(g) <= out.max || std::isnan(out.max) ? out.max : std::abs(g);
    out.squared += g * g;
  }
  return out;
}

double norm_of(std::span<const double> v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

double first_length(bool scale_free, double cost, const GradientNorms& gradient, double x_norm) {
  if (!scale_free) return std::min(1.0, 1 / gradient.max);
  const double norm = std::sqrt(gradient.squared);
  const double by_cost = std::abs(cost) / norm / norm, by_size = x_norm / norm;
  const bool has_cost = std::isnormal(by_cost), has_size = std::isnormal(by_size);
  if (has_cost && has_size) return std::clamp(by_size, kLeastChange * by_cost, by_cost);
  return has_cost ? by_cost : has_size ? by_size : 1 / gradient.max;
}

double optimality_of(std::span<const double> gradient, std::span<const double> way,
                     double decrease) {
  double work = 0, largest = 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    work += std::abs(gradient[k]) * std::abs(way[k]);
    largest = std::max(largest, std::abs(gradient[k]));
  }
  if (largest == 0) return 0;
  return decrease > 0 ? work / (2 * decrease) : std::numeric_limits<double>::quiet_NaN();
}

double scaled_square(std::span<const double> v, std::span<const double> scales) {
  double sum = 0;
  for (std::size_t k = 0; k < v.size(); ++k) sum += v[k] * v[k] * (scales.empty() ? 1 : scales[k]);
  return sum;
}

bool record_step_beside(IterationSummary step, const GradientNorms& norms,
                        const SolverOptions& options, Summary& summary) {
  ++summary.num_successful_steps;
  summary.final_cost = step.cost;
  step.iteration = summary.num_iterations();
  step.gradient_max_norm = norms.max;
  step.gradient_norm = std::sqrt(norms.squared);
  SolveControl control(options, summary);
  control.record(step);
  return !control.finished();
}

double cost_unit(const SolverOptions& options) { return rounding_unit(options.precision); }

double recent_cost(const Summary& summary) {
  const std::vector<IterationSummary>& steps = summary.iterations;
  return steps.empty() ? summary.initial_cost : steps[first_recent(steps.size())].cost;
}

double gentle_cost(const Summary& summary) {
  const std::vector<IterationSummary>& steps = summary.iterations;
  return steps.empty() ? summary.initial_cost : steps[first_gentle(steps.size())].cost;
}

double recent_gradient(const Summary& summary) {
  const std::vector<IterationSummary>& steps = summary.iterations;
  double out = 0;
  for (std::size_t k = first_recent(steps.size()); k < steps.size(); ++k)
    out = std::max(out, steps[k].gradient_max_norm);
  return out;
}

double cost_resolution(const SolverOptions& options, const Summary& summary, double cost) {
  const double rounds = std::max(std::abs(recent_cost(summary)), std::abs(cost));
  double share_of = std::abs(cost);
  if (options.scale_free) share_of = std::min(share_of, std::abs(gentle_cost(summary) - cost));
  return std::max(options.function_tolerance * share_of,
                  kCostRounding * cost_unit(options) * rounds);
}

double claimed_decrease(const SolverOptions& options, const Summary& summary, double cost) {
  const double gained = std::abs(gentle_cost(summary) - cost);
  return std::max(cost_resolution(options, summary, cost),
                  std::pow(options.parameter_tolerance, 2) * gained);
}

DescentControl::DescentControl(const SolverOptions& options, Summary& summary)
    : options_(options), summary_(summary), control_(options, summary) {
  for (const IterationSummary& step : summary.iterations)
    if (step.step_is_successful) path_ += step.step_norm;
}

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

void DescentControl::stuck(const GradientNorms& norms) {
  last_two_ = last_several_ = 0;
  check_limits(norms);
}

void DescentControl::check_limits(const GradientNorms& norms) {
  const double start =
      summary_.iterations.empty() ? 0 : summary_.iterations.front().gradient_max_norm;
  const double unit = options_.scale_free ? SolveControl::kShareOfStart * start : 1;
  const bool falls = norms.max <= options_.gradient_tolerance * unit && still_falls(norms.max);
  const double gradient = falls ? std::numeric_limits<double>::infinity() : norms.max;
  control_.check_limits("max |gradient|", gradient, unit, norms.judged());
}

/// The last steps lowered the cost by much: a gradient that is small beside that of a steep start
/// is no end. Where it is small beside recent ones, too, fewer steps say so.
bool DescentControl::still_falls(double gradient) const {
  if (!options_.scale_free || ends_by_gradient(options_) || gradient == 0) return false;
  const bool fell = gradient <= options_.gradient_tolerance * recent_gradient(summary_);
  return (fell ? last_two_ : last_several_) >
         cost_resolution(options_, summary_, summary_.final_cost);
}

bool DescentControl::accepted(IterationSummary iteration, double cost, const GradientNorms& norms,
                              double x_norm, Settling settling) {
  ++summary_.num_successful_steps;
  summary_.num_linear_iterations += iteration.linear_iterations;
  summary_.final_cost = cost;
  iteration.iteration = summary_.num_iterations();
  iteration.cost = cost;
  path_ += iteration.step_norm;
  const double before = settling == Settling::window ? summary_.iterations.back().cost_change : 0;
  last_two_ = iteration.cost_change + before;
  const double several = last_steps(iteration, settling).decrease;
  last_several_ = std::isfinite(several) ? std::max(several, last_two_) : last_two_;
  bool small_but_loose = false;
  if (ends_by_gradient(options_)) {
    look_at_gradient(iteration, norms);
  } else if (settling != Settling::never) {
    const std::optional<Met> met = met_by(iteration, x_norm, settling);
    small_but_loose = met && options_.scale_free && settling == Settling::loose;
    if (options_.scale_free && settling == Settling::newton)
      met_ = met;
    else if (met && !small_but_loose)
      converge(*met);
  }
  record(iteration, norms);
  check_limits(norms);
  return small_but_loose;
}

void DescentControl::converge(const Met& met) {
  control_.converge(met.by_cost ? "function tolerance reached: |cost change|"
                                : "parameter tolerance reached: step norm",
                    met.value, met.bound);
}

bool DescentControl::settles(double decrease) {
  const std::optional<Met> met = std::exchange(met_, std::nullopt);
  if (!met) return false;
  // Terms of the cost may have been as large as at the start, and round so.
  const double hidden =
      met->by_cost ? 0 : kCostRounding * cost_unit(options_) * std::abs(summary_.initial_cost);
  const double bound = std::max(cost_resolution(options_, summary_, summary_.final_cost), hidden);
  if (!(decrease <= bound)) return false;
  converge(*met);
  return true;
}

void DescentControl::transfer(ir::StateRecord& record) {
  bool waits = met_.has_value();
  Met met = met_.value_or(Met{});
  record.value("a tolerance is met", waits);
  record.value("by the cost", met.by_cost);
  record.value("its number", met.value);
  record.value("its bound", met.bound);
  record.value("decrease of the last two steps", last_two_);
  record.value("decrease of the last steps", last_several_);
  if (waits) met_ = met;
}

DescentControl::Last DescentControl::last_steps(const IterationSummary& iteration,
                                                Settling settling) const {
  Last out{std::abs(iteration.cost_change), iteration.step_norm};
  if (!options_.scale_free) return out;
  const std::span<const IterationSummary> before(summary_.iterations);
  if (settling != Settling::window) {
    // Steps whose decreases fall by a ratio have ratio / (1 - ratio) of the last one before them.
    const double last = before.back().cost_change;
    const bool follows =
        before.back().step_is_successful && last > 0;  // no start: it has no change
    const double ratio = follows ? out.decrease / last : 0;
    if (ratio > 0.5)
      out.decrease =
          ratio < 1 ? out.decrease * ratio / (1 - ratio) : std::numeric_limits<double>::infinity();
    return out;
  }
  const int most = std::max(kLeastWindow, summary_.num_successful_steps / kWindowShare);
  int steps = 1;
  for (auto step = before.rbegin(); steps < most; ++step) {
    if (step == before.rend() || step->iteration == 0)
      return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    if (!step->step_is_successful) continue;
    out.decrease += std::abs(step->cost_change);
    out.step = std::max(out.step, step->step_norm);
    ++steps;
  }
  return out;
}

std::optional<DescentControl::Met> DescentControl::met_by(const IterationSummary& iteration,
                                                          double x_norm, Settling settling) const {
  const double function = options_.function_tolerance, parameter = options_.parameter_tolerance;
  const double cost_bound = function > 0 && options_.scale_free
                                ? cost_resolution(options_, summary_, iteration.cost)
                                : function * std::abs(iteration.cost);
  const Last last = last_steps(iteration, settling);
  if (last.decrease <= cost_bound) return Met{true, last.decrease, cost_bound};
  // ‖x‖ depends on the origin and the way on the start: steps are small against both.
  const double size = options_.scale_free ? std::min(x_norm, path_) : x_norm + parameter;
  const double gained = std::abs(summary_.initial_cost - iteration.cost);
  const bool promises = options_.scale_free && function > 0 &&
                        last.decrease > std::max(cost_bound, kPromise * function * gained);
  if (last.step <= parameter * size && !promises) return Met{false, last.step, parameter * size};
  return std::nullopt;
}

/// Stops where rounding hides what steps do to the cost, and the gradient falls no more.
void DescentControl::look_at_gradient(const IterationSummary& iteration,
                                      const GradientNorms& norms) {
  const double noise = kCostRounding * cost_unit(options_) * std::abs(summary_.final_cost);
  if (!(std::abs(iteration.cost_change) <= noise)) return;
  idle_ = norms.judged() < 0.5 * least_gradient_ ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, norms.judged());
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
