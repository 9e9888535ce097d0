// Iterations of a solve, their log and callbacks, and parts of reports in Ceres' layout.
#include "report.hpp"

#include <algorithm>
#include <cstdarg>
#include <iostream>
#include <limits>

#include "../../../ir/machine/formatted.hpp"
#include "solver.hpp"

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
  to.line_search_function_evaluations = to.line_search_gradient_evaluations = from.evaluations;
  to.line_search_iterations = std::max(0, from.evaluations - 1);  // the first length is none
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

std::string Format(const char* text, ...) {
  std::va_list arguments;
  va_start(arguments, text);
  std::string out = topograd::platform::formatted_list(text, arguments);
  va_end(arguments);
  return out;
}

std::string VersionText() { return "Topograd " TOPOGRAD_VERSION; }

std::string Seconds(const char* label, double value) {
  return Format("%-30s %14.6f\n", label, value);
}

std::string Seconds(const char* label, double value, int count) {
  return Format("%-30s %14.6f (%d)\n", label, value, count);
}

std::string WithoutEffectText(const std::vector<std::string>& names) {
  std::string out = names.empty() ? "" : "\nOptions without effect:\n";
  for (const std::string& name : names) out += "  " + name + "\n";
  return out;
}

std::string TerminationText(TerminationType termination, const std::string& message) {
  return Format("\nTermination:        %25s (%s)\n", TerminationTypeToString(termination),
                message.c_str());
}

bool IsUsable(TerminationType termination) {
  return termination == CONVERGENCE || termination == NO_CONVERGENCE || termination == USER_SUCCESS;
}

}  // namespace ceres::internal

namespace ceres {
namespace {

using internal::Format;
using internal::Seconds;

std::string Pair(const char* label, int original, int reduced) {
  return Format("%-20s%25d%25d\n", label, original, reduced);
}
std::string Pair(const char* label, const std::string& given, const std::string& used) {
  return Format("%-20s%25s%25s\n", label, given.c_str(), used.c_str());
}
std::string Row(const char* label, const std::string& value) {
  return Format("%-20s%25s\n", label, value.c_str());
}
std::string Cost(const char* label, double value) { return Format("%-20s%25e\n", label, value); }
std::string Sizes(const Solver::Summary& s) {
  std::string out = "                                     Original                  Reduced\n";
  out += Pair("Parameter blocks", s.num_parameter_blocks, s.num_parameter_blocks_reduced);
  out += Pair("Parameters", s.num_parameters, s.num_parameters_reduced);
  if (s.num_effective_parameters_reduced != s.num_parameters_reduced)
    out += Pair("Effective parameters", s.num_effective_parameters,
                s.num_effective_parameters_reduced);
  out += Pair("Residual blocks", s.num_residual_blocks, s.num_residual_blocks_reduced);
  return out + Pair("Residuals", s.num_residuals, s.num_residuals_reduced);
}

std::string Method(const Solver::Summary& s) {
  const bool trust_region = s.minimizer_type == TRUST_REGION;
  std::string out = "\n" + Row("Minimizer", MinimizerTypeToString(s.minimizer_type));
  if (trust_region) {
    std::string strategy = TrustRegionStrategyTypeToString(s.trust_region_strategy_type);
    if (s.trust_region_strategy_type == DOGLEG)
      strategy += s.dogleg_type == TRADITIONAL_DOGLEG ? " (TRADITIONAL)" : " (SUBSPACE)";
    out += Format("%-21s%24s\n", "Trust region strategy", strategy.c_str());
  } else {
    std::string direction = LineSearchDirectionTypeToString(s.line_search_direction_type);
    if (s.line_search_direction_type == LBFGS)
      direction += " (" + std::to_string(s.max_lbfgs_rank) + ")";
    out += Format("%-21s%24s\n", "Line search direction", direction.c_str());
    out += Row("Line search type", LineSearchTypeToString(s.line_search_type));
  }
  out += "\n                                        Given                     Used\n";
  if (trust_region) {
    out += Pair("Linear solver", LinearSolverTypeToString(s.linear_solver_type_given),
                LinearSolverTypeToString(s.linear_solver_type_used));
    if (s.preconditioner_type_used != IDENTITY)
      out += Pair("Preconditioner", PreconditionerTypeToString(s.preconditioner_type_given),
                  PreconditionerTypeToString(s.preconditioner_type_used));
  }
  return out + Pair("Threads", s.num_threads_given, s.num_threads_used);
}

std::string Costs(const Solver::Summary& s) {
  std::string out = "\nCost:\n" + Cost("Initial", s.initial_cost);
  if (s.termination_type != FAILURE && s.termination_type != USER_FAILURE)
    out += Cost("Final", s.final_cost) + Cost("Change", s.initial_cost - s.final_cost);
  out += "\n" + Format("%-20s%25d\n", "Minimizer iterations",
                       s.num_successful_steps + s.num_unsuccessful_steps);
  if (s.minimizer_type == LINE_SEARCH)
    return out + Format("%-20s%25d\n", "Line search steps", s.num_line_search_steps);
  return out + Format("%-20s%25d\n", "Successful steps", s.num_successful_steps) +
         Format("%-20s%25d\n", "Unsuccessful steps", s.num_unsuccessful_steps);
}

std::string Times(const Solver::Summary& s) {
  return "\nTime (in seconds):\n" + Seconds("Preprocessor", s.preprocessor_time_in_seconds) + "\n" +
         Seconds("  Residuals and Jacobians", s.residual_evaluation_time_in_seconds,
                 s.num_residual_evaluations) +
         Seconds("  Linear solver", s.linear_solver_time_in_seconds, s.num_linear_solves) +
         Seconds("Minimizer", s.minimizer_time_in_seconds) + "\n" +
         Seconds("Postprocessor", s.postprocessor_time_in_seconds) +
         Seconds("Total", s.total_time_in_seconds);
}

/// Information that Ceres' report has no line for.
std::string Additions(const Solver::Summary& s) {
  std::string out;
  if (!s.topograd.backend.empty()) {
    out += "\n" + Row("Backend", s.topograd.backend) + "  why: " + s.topograd.why + "\n" +
           Row("Device", s.topograd.device) +
           Row("Precision", std::string(topograd::codegen::name(s.topograd.precision))) +
           Row("Topologies", std::to_string(s.topograd.topologies.size()));
  }
  if (!s.host_notes.empty()) out += "\nCost functions on the CPU:\n";
  for (const std::string& note : s.host_notes) out += "  " + note + "\n";
  return out + internal::WithoutEffectText(s.options_without_effect);
}

}  // namespace

std::string Solver::Summary::BriefReport() const {
  return Format(
      "Ceres Solver Report: Iterations: %d, Initial cost: %e, Final cost: %e, Termination: %s",
      num_successful_steps + num_unsuccessful_steps, initial_cost, final_cost,
      TerminationTypeToString(termination_type));
}

std::string Solver::Summary::FullReport() const {
  const std::string head = "\nSolver Summary (" + internal::VersionText() + ")\n\n" + Sizes(*this);
  const std::string end = Additions(*this) + internal::TerminationText(termination_type, message);
  if (termination_type == FAILURE && initial_cost < 0) return head + end;
  return head + Method(*this) + Costs(*this) + Times(*this) + end;
}

bool Solver::Summary::IsSolutionUsable() const { return internal::IsUsable(termination_type); }

}  // namespace ceres
