// Common bookkeeping of all minimisers.
#include "solve_control.hpp"

#include "../../ir/machine/formatted.hpp"

#include <utility>

namespace topograd {

SolveControl::SolveControl(const SolverOptions& options, Summary& summary)
    : options_(options), summary_(summary) {
  if (!summary.iterations.empty()) resume(false);
}

void SolveControl::resume(bool finished) {
  before_ = last_record_ = summary_.iterations.back().cumulative_time_in_seconds;
  finished_ = finished;
}

void SolveControl::finish(Termination termination, std::string message) {
  finished_ = true;
  summary_.termination = termination;
  summary_.message = std::move(message);
}

void SolveControl::converge(const char* what, double value, double bound) {
  finish(Termination::CONVERGENCE, platform::formatted("%s: %.6e <= %.6e", what, value, bound));
}

double SolveControl::elapsed() const {
  return before_ + std::chrono::duration<double>(Clock::now() - started_).count();
}

void SolveControl::record(IterationSummary iteration) {
  iteration.cumulative_time_in_seconds = elapsed();
  iteration.iteration_time_in_seconds = iteration.cumulative_time_in_seconds - last_record_;
  last_record_ = iteration.cumulative_time_in_seconds;
  summary_.iterations.push_back(iteration);
  call_back();
}

void SolveControl::check_limits(const char* what, double gradient, double unit,
                                double gradient_max) {
  if (finished_) return;
  const double bound = options_.gradient_tolerance * unit;
  if (gradient <= bound) {
    const std::string text = std::string("gradient tolerance reached: ") + what;
    converge(text.c_str(), gradient, bound);
  } else if (options_.absolute_gradient_tolerance > 0 &&
             gradient_max <= options_.absolute_gradient_tolerance) {
    converge("absolute gradient tolerance reached: max |gradient|", gradient_max,
             options_.absolute_gradient_tolerance);
  } else if (elapsed() - summary_.resumed_seconds >= options_.time_limit_seconds) {
    finish(Termination::NO_CONVERGENCE,
           "time limit reached: " + std::to_string(options_.time_limit_seconds) + " s");
  } else if (summary_.num_iterations() >= options_.max_iterations) {
    finish(Termination::NO_CONVERGENCE,
           "maximum number of iterations reached: " + std::to_string(options_.max_iterations));
  }
}

void SolveControl::call_back() {
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

}  // namespace topograd
