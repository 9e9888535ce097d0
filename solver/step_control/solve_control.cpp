// Common bookkeeping of all minimisers.
#include "solve_control.hpp"

#include "../../ir/machine/formatted.hpp"
#include "step_rules.hpp"

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
  const Verdict verdict =
      limit_reached(options_, gradient, unit, gradient_max, elapsed() - summary_.resumed_seconds,
                    summary_.num_iterations());
  if (verdict.end == End::gradient) {
    const std::string reached = std::string("gradient tolerance reached: ") + what;
    converge(reached.c_str(), verdict.value, verdict.bound);
  } else if (verdict) {
    finish(termination(verdict.end), text(verdict, options_));
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
