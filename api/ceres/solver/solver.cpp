// ceres::Solve: converts the problem, minimises it, and reports in Ceres' form.
#include "solver.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../solver/options.hpp"
#include "../../../solver/solve.hpp"
#include "../problem/lowered_problem.hpp"
#include "../problem/problem_impl.hpp"
#include "gradient_checker.hpp"
#include "report.hpp"
#include "solver_options.hpp"

namespace ceres::internal {

/// Checks at the start and at each accepted point, in the user's memory.
class GradientChecks {
 public:
  /// Both arguments must outlive this object.
  GradientChecks(const Solver::Options& options, const ProblemImpl& problem)
      : options_(options), problem_(problem) {}

  /// A callback that stops the solve at the first wrong residual block, and otherwise calls `next`,
  /// which may be empty. Cost of an iteration: Ridders' method on every residual block.
  topograd::IterationCallback Before(topograd::IterationCallback next);

  /// The first error and its residual block; empty if none was found.
  const std::string& error() const { return error_; }

 private:
  std::string Check(const ResidualBlock& residual) const;

  const Solver::Options& options_;
  const ProblemImpl& problem_;
  std::string error_;
};

}  // namespace ceres::internal

namespace ceres {

namespace internal {
namespace {

using Clock = std::chrono::steady_clock;

int Narrow(std::size_t n) { return static_cast<int>(n); }

/// Counts the whole problem, and the part of it that is variable.
void Count(const ProblemImpl& problem, Solver::Summary& summary) {
  summary.num_parameter_blocks = Narrow(problem.parameters().size());
  summary.num_residual_blocks = Narrow(problem.residuals().size());
  int* const sums[] = {&summary.num_parameters,
                       &summary.num_effective_parameters,
                       &summary.num_residuals,
                       &summary.num_parameter_blocks_reduced,
                       &summary.num_parameters_reduced,
                       &summary.num_effective_parameters_reduced,
                       &summary.num_residual_blocks_reduced,
                       &summary.num_residuals_reduced};
  for (int* sum : sums) *sum = 0;
  std::vector<bool> used(problem.parameters().size(), false);
  for (const auto& residual : problem.residuals()) {
    const int rows = residual->cost->num_residuals();
    summary.num_residuals += rows;
    const bool varies = residual->variable();
    summary.num_residual_blocks_reduced += varies ? 1 : 0;
    summary.num_residuals_reduced += varies ? rows : 0;
    for (const ParameterBlock* block : residual->parameters) used[block->position] = true;
  }
  for (const auto& block : problem.parameters()) {
    summary.num_parameters += block->size;
    summary.num_effective_parameters += block->tangent_size();
    if (!used[block->position] || !block->variable()) continue;
    ++summary.num_parameter_blocks_reduced;
    summary.num_parameters_reduced += block->size;
    summary.num_effective_parameters_reduced += block->tangent_size();
    summary.is_constrained |= !block->lower.empty() || !block->upper.empty();
  }
}

/// Fills in the summary's fields that are known before the solve, and the requested options.
void Describe(const Solver::Options& options, const ProblemImpl& problem,
              Solver::Summary& summary) {
  Count(problem, summary);
  summary.minimizer_type = options.minimizer_type;
  summary.num_threads_given = summary.num_threads_used = options.num_threads;
  summary.linear_solver_type_given = options.linear_solver_type;
  summary.linear_solver_type_used = options.linear_solver_type;
  summary.preconditioner_type_given = options.preconditioner_type;
  summary.trust_region_strategy_type = options.trust_region_strategy_type;
  summary.dogleg_type = options.dogleg_type;
  summary.dense_linear_algebra_library_type = options.dense_linear_algebra_library_type;
  summary.sparse_linear_algebra_library_type = EIGEN_SPARSE;
  summary.line_search_direction_type = options.line_search_direction_type;
  summary.line_search_type = options.line_search_type;
  summary.max_lbfgs_rank = options.max_lbfgs_rank;
  summary.inner_iterations_given = options.use_inner_iterations;
  summary.num_inner_iteration_steps = 0;
  summary.num_line_search_steps = 0;
  summary.fixed_cost = 0;
  summary.options_without_effect = OptionsWithoutEffect(options);
  if (options.linear_solver_ordering)
    for (const auto& [group, blocks] : options.linear_solver_ordering->group_to_elements())
      summary.linear_solver_ordering_given.push_back(static_cast<int>(blocks.size()));
}

void Report(const topograd::Summary& from, Solver::Summary& to) {
  to.termination_type = FromTopograd(from.termination);
  to.message = from.message;
  to.initial_cost = from.initial_cost;
  to.final_cost = from.final_cost;
  to.num_successful_steps = from.num_successful_steps + 1;  // Ceres counts the start
  to.num_unsuccessful_steps = from.num_unsuccessful_steps;
  to.linear_solver_type_used = UsedLinearSolver(to.linear_solver_type_given, from.linear_solver);
  to.preconditioner_type_used = to.linear_solver_type_used == CGNR              ? JACOBI
                                : to.linear_solver_type_used == ITERATIVE_SCHUR ? SCHUR_JACOBI
                                                                                : IDENTITY;
  to.num_linear_solves = from.num_iterations();
  to.linear_solver_time_in_seconds = from.times.linear_solver_seconds;
  to.residual_evaluation_time_in_seconds = from.times.evaluation_seconds;
  to.num_residual_evaluations = from.num_iterations() + 1;
  to.num_jacobian_evaluations = from.num_successful_steps + 1;
  to.jacobian_evaluation_time_in_seconds = 0;
  for (const topograd::IterationSummary& iteration : from.iterations) {
    to.iterations.push_back(Translate(iteration));
    to.num_line_search_steps += to.iterations.back().line_search_iterations;
  }
}

/// One call of Solve.
class Solve {
 public:
  Solve(const Solver::Options& options, ProblemImpl& problem, Solver::Summary& summary)
      : options_(options), problem_(problem), summary_(summary) {}

  void Run() {
    const Clock::time_point begin = Clock::now();
    summary_ = Solver::Summary();
    Describe(options_, problem_, summary_);
    if (options_.IsValid(&summary_.message)) {
      try {
        Minimize();
      } catch (const topograd::Error& error) {
        summary_.termination_type = FAILURE;
        summary_.message = error.what();
      }
    }
    summary_.total_time_in_seconds = topograd::seconds_since(begin);
    summary_.minimizer_time_in_seconds =
        summary_.total_time_in_seconds - std::max(summary_.preprocessor_time_in_seconds, 0.0);
    summary_.postprocessor_time_in_seconds = 0;
  }

 private:
  void Minimize() {
    const Clock::time_point begin = Clock::now();
    if (options_.minimizer_type == LINE_SEARCH && summary_.is_constrained) {
      summary_.message = "LINE_SEARCH Minimizer does not support bounds.";
      return;
    }
    LoweredProblem lowered(problem_);
    summary_.num_successful_steps = summary_.num_unsuccessful_steps = 0;
    summary_.preprocessor_time_in_seconds = topograd::seconds_since(begin);
    summary_.host_notes = lowered.host_notes();
    if (!FindFixedCost()) return;
    if (lowered.variable_blocks() == 0) return NothingToDo();
    topograd::SolverOptions options =
        Lower(options_, static_cast<double>(summary_.num_residuals_reduced) *
                            summary_.num_effective_parameters_reduced);
    if (TakesOrdering(options_) && options_.linear_solver_ordering)
      options.linear_solver_ordering =
          lowered.Ordered(*options_.linear_solver_ordering, summary_.linear_solver_ordering_used);
    const bool logs = options_.minimizer_progress_to_stdout && options_.logging_type != SILENT;
    options.callback = ForwardCallbacks(options_.callbacks, logs);
    GradientChecks checks(options_, problem_);
    if (options_.check_gradients) {
      options.update_state_every_iteration = true;
      options.callback = checks.Before(std::move(options.callback));
    }
    if (options.callback && options.update_state_every_iteration)
      options.callback = [&lowered, forward = options.callback](const auto& iteration) {
        lowered.Write();
        return forward(iteration);
      };
    try {
      summary_.topograd = topograd::solve(lowered.problem(), options);
    } catch (...) {
      lowered.Write();
      throw;
    }
    lowered.Write();
    Report(summary_.topograd, summary_);
    if (checks.error().empty()) return;
    summary_.termination_type = FAILURE;
    summary_.message = checks.error();
  }

  /// Sums the costs of residual blocks without a variable parameter block.
  bool FindFixedCost() {
    EvaluationCallback* callback = problem_.options().evaluation_callback;
    for (const auto& residual : problem_.residuals()) {
      if (residual->variable()) continue;
      if (callback != nullptr) std::exchange(callback, nullptr)->PrepareForEvaluation(false, true);
      double cost = 0;
      if (!EvaluateBlock(*residual, true, &cost, nullptr, nullptr) || !std::isfinite(cost)) {
        summary_.message = "Evaluation of the residual " + std::to_string(residual->position) +
                           " failed during removal of fixed residual blocks.";
        return false;
      }
      summary_.fixed_cost += cost;
    }
    return true;
  }

  /// Ends as Ceres does if nothing is variable.
  void NothingToDo() {
    summary_.initial_cost = summary_.final_cost = summary_.fixed_cost;
    summary_.num_successful_steps = summary_.num_unsuccessful_steps = 0;
    summary_.termination_type = CONVERGENCE;
    summary_.message = "Function tolerance reached. No non-constant parameter blocks found.";
  }

  const Solver::Options& options_;
  ProblemImpl& problem_;
  Solver::Summary& summary_;
};

}  // namespace
}  // namespace internal

Solver::~Solver() = default;

void Solver::Solve(const Options& options, Problem* problem, Summary* summary) {
  internal::Solve(options, internal::ProblemAccess::impl(*problem), *summary).Run();
}

void Solve(const Solver::Options& options, Problem* problem, Solver::Summary* summary) {
  Solver().Solve(options, problem, summary);
}

}  // namespace ceres

namespace ceres::internal {

topograd::IterationCallback GradientChecks::Before(topograd::IterationCallback next) {
  return [this, next = std::move(next)](const topograd::IterationSummary& iteration) {
    if (iteration.step_is_successful) {
      for (const auto& residual : problem_.residuals()) {
        error_ = Check(*residual);
        if (!error_.empty()) return topograd::CallbackReturn::SOLVER_ABORT;
      }
    }
    return next ? next(iteration) : topograd::CallbackReturn::SOLVER_CONTINUE;
  };
}

std::string GradientChecks::Check(const ResidualBlock& residual) const {
  std::vector<const Manifold*> manifolds;
  std::vector<const double*> values;
  std::string blocks;
  for (const ParameterBlock* block : residual.parameters) {
    manifolds.push_back(block->manifold);
    values.push_back(block->values);
    blocks += Format("%s%p", blocks.empty() ? "" : ", ", static_cast<const void*>(block->values));
  }
  NumericDiffOptions differences;
  differences.relative_step_size = options_.gradient_check_numeric_derivative_relative_step_size;
  GradientChecker::ProbeResults results;
  const GradientChecker checker(residual.cost, &manifolds, differences);
  if (checker.Probe(values.data(), options_.gradient_check_relative_precision, &results)) return "";
  return Format(
             "Gradient Error detected!\nExtra info for this residual: Residual block id %zu; "
             "depends on parameters [%s]\nWorst relative error was %g.\n",
             residual.position, blocks.c_str(), results.maximum_relative_error) +
         results.error_log;
}

}  // namespace ceres::internal
