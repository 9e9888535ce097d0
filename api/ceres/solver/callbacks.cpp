// Progress of a solve in Ceres' form: iterations, their log, callbacks.
#include "callbacks.hpp"

#include "report.hpp"

#include <iostream>
#include <limits>

namespace ceres::internal {
namespace {

topograd::CallbackReturn ToTopograd(CallbackReturnType answer) {
  switch (answer) {
    case SOLVER_CONTINUE: return topograd::CallbackReturn::SOLVER_CONTINUE;
    case SOLVER_ABORT: return topograd::CallbackReturn::SOLVER_ABORT;
    case SOLVER_TERMINATE_SUCCESSFULLY:
      return topograd::CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
  }
  return topograd::CallbackReturn::SOLVER_ABORT;
}

constexpr const char* kColumns =
    "iter      cost      cost_change  |gradient|   |step|    tr_ratio  tr_radius  ls_iter  "
    "iter_time  total_time\n";

std::string LogLine(const IterationSummary& i) {
  const std::string line =
      Format("% 4d % 8e   % 3.2e   % 3.2e  % 3.2e  % 3.2e % 3.2e     % 4d   % 3.2e   % 3.2e",
             i.iteration, i.cost, i.cost_change, i.gradient_max_norm, i.step_norm,
             i.relative_decrease, i.trust_region_radius, i.linear_solver_iterations,
             i.iteration_time_in_seconds, i.cumulative_time_in_seconds);
  return i.iteration > 0 ? line : kColumns + line;
}

}  // namespace

IterationSummary Translate(const topograd::IterationSummary& from) {
  IterationSummary to;
  to.iteration = from.iteration;
  to.step_is_valid = from.step_is_valid;
  to.step_is_successful = from.step_is_successful;
  to.cost = from.cost;
  to.cost_change = from.cost_change;
  if (from.step_is_nonfinite) {  // Ceres has no other number for a cost that does not exist
    to.cost = std::numeric_limits<double>::max();
    to.cost_change = -to.cost;
  } else if (from.step_is_valid && !from.step_is_successful && from.iteration > 0) {
    to.cost -= from.cost_change;  // of the trial
  }
  to.gradient_max_norm = from.gradient_max_norm;
  to.gradient_norm = from.gradient_norm;
  to.step_norm = from.step_is_valid ? from.step_norm : 0;
  to.relative_decrease = from.relative_decrease;
  to.trust_region_radius = from.trust_region_radius;
  to.linear_solver_iterations = from.linear_iterations;
  to.iteration_time_in_seconds = from.iteration_time_in_seconds;
  to.cumulative_time_in_seconds = from.cumulative_time_in_seconds;
  return to;
}

TerminationType FromTopograd(topograd::Termination termination) {
  switch (termination) {
    case topograd::Termination::CONVERGENCE: return CONVERGENCE;
    case topograd::Termination::NO_CONVERGENCE: return NO_CONVERGENCE;
    case topograd::Termination::FAILURE:
    case topograd::Termination::INFEASIBLE: return FAILURE;
    case topograd::Termination::USER_SUCCESS: return USER_SUCCESS;
    case topograd::Termination::USER_FAILURE: return USER_FAILURE;
  }
  return FAILURE;
}

topograd::IterationCallback ForwardCallbacks(const std::vector<IterationCallback*>& callbacks,
                                             bool logs) {
  if (callbacks.empty() && !logs) return {};
  return [callbacks, logs](const topograd::IterationSummary& iteration) {
    const IterationSummary summary = Translate(iteration);
    if (logs) std::cout << LogLine(summary) << std::endl;
    for (IterationCallback* callback : callbacks) {
      const CallbackReturnType answer = (*callback)(summary);
      if (answer != SOLVER_CONTINUE) return ToTopograd(answer);
    }
    return topograd::CallbackReturn::SOLVER_CONTINUE;
  };
}

}  // namespace ceres::internal
