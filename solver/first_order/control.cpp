// History and termination of the minimisers of scalar objectives.
#include <topograd/solver/first_order/control.hpp>

#include <topograd/ir/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace topograd {
namespace {

std::string compare(const char* what, double value, double bound) {
  char text[160];
  std::snprintf(text, sizeof text, "%s: %.6e <= %.6e", what, value, bound);
  return text;
}

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

double norm_of(std::span<const double> v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

DescentControl::DescentControl(const SolverOptions& options, Summary& summary)
    : options_(options), summary_(summary) {
  if (summary.iterations.empty()) return;
  before_ = last_record_ = summary.iterations.back().cumulative_time_in_seconds;
}

double DescentControl::elapsed() const {
  return before_ + std::chrono::duration<double>(Clock::now() - started_).count();
}

void DescentControl::finish(Termination termination, std::string message) {
  finished_ = true;
  summary_.termination = termination;
  summary_.message = std::move(message);
}

void DescentControl::start(double cost, std::span<const double> gradient) {
  const GradientNorms norms = norms_of(gradient);
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
  check_bounds(norms);
}

void DescentControl::accepted(IterationSummary iteration, double cost,
                              std::span<const double> gradient, double x_norm, bool monotone) {
  const GradientNorms norms = norms_of(gradient);
  ++summary_.num_successful_steps;
  summary_.num_linear_iterations += iteration.linear_iterations;
  summary_.final_cost = cost;
  iteration.iteration = summary_.num_iterations();
  iteration.cost = cost;
  const double cost_bound = options_.function_tolerance * std::abs(cost);
  const double step_bound = options_.parameter_tolerance * (x_norm + options_.parameter_tolerance);
  if (monotone && std::abs(iteration.cost_change) <= cost_bound) {
    finish(Termination::CONVERGENCE, compare("function tolerance reached: |cost change|",
                                             std::abs(iteration.cost_change), cost_bound));
  } else if (monotone && iteration.step_norm <= step_bound) {
    finish(Termination::CONVERGENCE,
           compare("parameter tolerance reached: step norm", iteration.step_norm, step_bound));
  }
  record(iteration, norms);
  check_bounds(norms);
}

void DescentControl::rejected(IterationSummary iteration, std::span<const double> gradient) {
  const GradientNorms norms = norms_of(gradient);
  ++summary_.num_unsuccessful_steps;
  summary_.num_nonfinite_steps += iteration.step_is_nonfinite ? 1 : 0;
  iteration.iteration = summary_.num_iterations();
  iteration.step_is_successful = false;
  iteration.cost = summary_.final_cost;
  record(iteration, norms);
  check_bounds(norms);
}

void DescentControl::check_bounds(const GradientNorms& norms) {
  if (finished_) return;
  if (norms.max <= options_.gradient_tolerance) {
    finish(Termination::CONVERGENCE, compare("gradient tolerance reached: max |gradient|",
                                             norms.max, options_.gradient_tolerance));
  } else if (elapsed() >= options_.time_limit_seconds) {
    finish(Termination::NO_CONVERGENCE,
           "time limit reached: " + std::to_string(options_.time_limit_seconds) + " s");
  } else if (summary_.num_iterations() >= options_.max_iterations) {
    finish(Termination::NO_CONVERGENCE,
           "maximum number of iterations reached: " + std::to_string(options_.max_iterations));
  }
}

void DescentControl::call_back() {
  if (!options_.callback) return;
  const CallbackReturn answer = options_.callback(summary_.iterations.back());
  if (finished_) return;
  switch (answer) {
    case CallbackReturn::SOLVER_CONTINUE: return;
    case CallbackReturn::SOLVER_ABORT:
      return finish(Termination::USER_FAILURE, "a callback stopped the solve");
    case CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY:
      return finish(Termination::USER_SUCCESS, "a callback was satisfied");
  }
}

void DescentControl::record(IterationSummary iteration, const GradientNorms& norms) {
  iteration.gradient_max_norm = norms.max;
  iteration.gradient_norm = std::sqrt(norms.squared);
  iteration.cumulative_time_in_seconds = elapsed();
  iteration.iteration_time_in_seconds = iteration.cumulative_time_in_seconds - last_record_;
  last_record_ = iteration.cumulative_time_in_seconds;
  summary_.iterations.push_back(iteration);
  call_back();
}

}  // namespace topograd
