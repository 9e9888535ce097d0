// Gradient problems: evaluation in tangent space, and their solver on the library's L-BFGS.
#include "gradient_problem.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../../../frontend/host_residual.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../solver/first_order/lbfgs.hpp"
#include "report.hpp"
#include "solver_options.hpp"

namespace ceres {

FirstOrderFunction::~FirstOrderFunction() = default;

GradientProblem::GradientProblem(FirstOrderFunction* function) : function_(function) {}

GradientProblem::GradientProblem(FirstOrderFunction* function, Manifold* manifold)
    : function_(function), manifold_(manifold) {
  if (manifold != nullptr && manifold->AmbientSize() != NumParameters())
    throw topograd::Error(topograd::ErrorCode::Shape,
                          "GradientProblem: expected a manifold in blocks of " +
                              std::to_string(NumParameters()) + ", got one in blocks of " +
                              std::to_string(manifold->AmbientSize()));
}

bool GradientProblem::Evaluate(const double* parameters, double* cost, double* gradient) const {
  if (manifold_ == nullptr || gradient == nullptr)
    return function_->Evaluate(parameters, cost, gradient);
  std::vector<double> ambient(static_cast<std::size_t>(NumParameters()), topograd::unwritten());
  return function_->Evaluate(parameters, cost, ambient.data()) &&
         manifold_->RightMultiplyByPlusJacobian(parameters, 1, ambient.data(), gradient);
}

bool GradientProblem::Plus(const double* x, const double* delta, double* x_plus_delta) const {
  if (manifold_ != nullptr) return manifold_->Plus(x, delta, x_plus_delta);
  std::transform(x, x + NumParameters(), delta, x_plus_delta, std::plus<>());
  return true;
}

namespace internal {
namespace {

using Clock = std::chrono::steady_clock;

/// One call of Solve.
class Descent {
 public:
  Descent(const GradientProblemSolver::Options& options, const GradientProblem& problem,
          double* parameters, GradientProblemSolver::Summary& summary)
      : options_(options),
        problem_(problem),
        x_(parameters, static_cast<std::size_t>(problem.NumParameters())),
        summary_(summary) {}

  void Run() {
    const Clock::time_point begin = Clock::now();
    Describe();
    if (options_.IsValid(&summary_.message)) {
      try {
        Minimize();
      } catch (const topograd::Error& error) {
        summary_.termination_type = FAILURE;
        summary_.message = error.what();
      }
    }
    summary_.total_time_in_seconds = topograd::seconds_since(begin);
  }

 private:
  void Describe() {
    summary_ = {};
    summary_.num_parameters = problem_.NumParameters();
    summary_.num_tangent_parameters = summary_.num_local_parameters =
        problem_.NumTangentParameters();
    summary_.line_search_direction_type = options_.line_search_direction_type;
    summary_.line_search_type = options_.line_search_type;
    summary_.max_lbfgs_rank = options_.max_lbfgs_rank;
    summary_.num_cost_evaluations = summary_.num_gradient_evaluations = 0;
    summary_.cost_evaluation_time_in_seconds = 0;
    summary_.gradient_evaluation_time_in_seconds = 0;
    summary_.options_without_effect = LineSearchOptionsWithoutEffect(options_);
  }

  double Evaluate(std::span<const double> x, std::span<double> gradient) {
    const Clock::time_point begin = Clock::now();
    double cost = topograd::unwritten();
    std::ranges::fill(gradient, topograd::unwritten());
    const bool defined =
        problem_.Evaluate(x.data(), &cost, gradient.empty() ? nullptr : gradient.data());
    const double seconds = topograd::seconds_since(begin);
    ++summary_.num_cost_evaluations;
    if (gradient.empty()) {
      summary_.cost_evaluation_time_in_seconds += seconds;
    } else {
      ++summary_.num_gradient_evaluations;
      summary_.gradient_evaluation_time_in_seconds += seconds;
    }
    return defined ? cost : std::numeric_limits<double>::quiet_NaN();
  }

  topograd::Objective Objective() {
    topograd::Objective objective;
    objective.size = x_.size();
    objective.tangent_size = static_cast<std::size_t>(problem_.NumTangentParameters());
    objective.evaluate = [this](std::span<const double> x, std::span<double> gradient) {
      return Evaluate(x, gradient);
    };
    if (problem_.manifold() != nullptr)
      objective.plus = [this](std::span<const double> x, std::span<const double> step,
                              std::span<double> result) {
        if (!problem_.Plus(x.data(), step.data(), result.data()))
          std::ranges::fill(result, std::numeric_limits<double>::quiet_NaN());
      };
    return objective;
  }

  void Minimize() {
    topograd::SolverOptions options;
    options.max_iterations = options_.max_num_iterations;
    options.time_limit_seconds = LowerTimeLimit(options_.max_solver_time_in_seconds);
    options.function_tolerance = options_.function_tolerance;
    options.gradient_tolerance = options_.gradient_tolerance;
    options.scale_free = false;
    options.parameter_tolerance = options_.parameter_tolerance;
    options.max_lbfgs_rank = options_.max_lbfgs_rank;
    options.line_search = LowerLineSearch(options_);
    const bool logs = options_.minimizer_progress_to_stdout && options_.logging_type != SILENT;
    // Callbacks see the caller's numbers change only if they asked for it.
    std::vector<double> x(x_.begin(), x_.end());
    options.callback = ForwardCallbacks(options_.callbacks, logs);
    if (options.callback && options_.update_state_every_iteration)
      options.callback = [this, &x, forward = std::move(options.callback)](const auto& iteration) {
        std::ranges::copy(x, x_.begin());
        return forward(iteration);
      };
    topograd::Summary result;
    try {
      topograd::minimize_lbfgs(Objective(), x, options, result);
    } catch (...) {
      std::ranges::copy(x, x_.begin());
      throw;
    }
    std::ranges::copy(x, x_.begin());
    summary_.termination_type = FromTopograd(result.termination);
    summary_.message = result.message;
    summary_.initial_cost = result.initial_cost;
    summary_.final_cost = result.final_cost;
    for (const topograd::IterationSummary& iteration : result.iterations)
      summary_.iterations.push_back(Translate(iteration));
  }

  const GradientProblemSolver::Options& options_;
  const GradientProblem& problem_;
  std::span<double> x_;
  GradientProblemSolver::Summary& summary_;
};

}  // namespace
}  // namespace internal

GradientProblemSolver::~GradientProblemSolver() = default;

bool GradientProblemSolver::Options::IsValid(std::string* error) const {
  internal::Checks checks("GradientProblemSolver::Options");
  checks.AtLeast("max_num_iterations", max_num_iterations, 0);
  checks.AtLeast("max_solver_time_in_seconds", max_solver_time_in_seconds, 0.0);
  checks.AtLeast("function_tolerance", function_tolerance, 0.0);
  checks.AtLeast("gradient_tolerance", gradient_tolerance, 0.0);
  checks.AtLeast("parameter_tolerance", parameter_tolerance, 0.0);
  checks.Above("max_lbfgs_rank", max_lbfgs_rank, 0);
  checks.Above("max_num_line_search_step_size_iterations", max_num_line_search_step_size_iterations,
               0);
  return checks.Passed(error);
}

void GradientProblemSolver::Solve(const Options& options, const GradientProblem& problem,
                                  double* parameters, Summary* summary) {
  internal::Descent(options, problem, parameters, *summary).Run();
}

void Solve(const GradientProblemSolver::Options& options, const GradientProblem& problem,
           double* parameters, GradientProblemSolver::Summary* summary) {
  GradientProblemSolver().Solve(options, problem, parameters, summary);
}

std::string GradientProblemSolver::Summary::BriefReport() const {
  return internal::Format(
      "Ceres GradientProblemSolver Report: Iterations: %d, Initial cost: %e, Final cost: %e, "
      "Termination: %s",
      static_cast<int>(iterations.size()), initial_cost, final_cost,
      TerminationTypeToString(termination_type));
}

std::string GradientProblemSolver::Summary::FullReport() const {
  using internal::Format;
  std::string out = "\nSolver Summary (" + internal::VersionText() + ")\n\n" +
                    Format("%-20s%25d\n", "Parameters", num_parameters);
  if (num_tangent_parameters != num_parameters)
    out += Format("%-20s%25d\n", "Tangent parameters", num_tangent_parameters);
  const std::string direction = std::string(LineSearchDirectionTypeToString(LBFGS)) + " (" +
                                std::to_string(max_lbfgs_rank) + ")";
  out += Format("%-21s%24s\n", "Line search direction", direction.c_str()) +
         Format("%-20s%25s\n", "Line search type", "CUBIC WOLFE") + "\nCost:\n" +
         Format("%-20s%25e\n", "Initial", initial_cost) +
         Format("%-20s%25e\n", "Final", final_cost) +
         Format("%-20s%25e\n", "Change", initial_cost - final_cost) +
         Format("\n%-20s%25d\n", "Minimizer iterations", static_cast<int>(iterations.size())) +
         "\nTime (in seconds):\n" +
         internal::Seconds("  Cost evaluation", cost_evaluation_time_in_seconds,
                           num_cost_evaluations - num_gradient_evaluations) +
         internal::Seconds("  Cost & gradient evaluation", gradient_evaluation_time_in_seconds,
                           num_gradient_evaluations) +
         internal::Seconds("Total", total_time_in_seconds) +
         internal::WithoutEffectText(options_without_effect);
  return out + internal::TerminationText(termination_type, message);
}

bool GradientProblemSolver::Summary::IsSolutionUsable() const {
  return internal::IsUsable(termination_type);
}

}  // namespace ceres
