// The methods for constraints, the method of their minimisations, and what they refuse.
#include "constrained.hpp"

#include "../../ir/error.hpp"
#include "augmented_lagrangian.hpp"
#include "barrier.hpp"

#include <algorithm>
#include <string>

namespace topograd {
namespace {

constexpr int kBarrierEvaluations = 60;

void refuse(Method method, const std::string& why) {
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " " + why);
}

}  // namespace

SolverOptions inner_options(SolverOptions options, const Problem& problem) {
  const Method outer = options.method;
  const bool barrier = outer == Method::barrier;
  if (!options.checkpoint.file.empty() || !options.resume.empty())
    refuse(outer, "writes and resumes no checkpoints; expected empty checkpoint.file and resume");
  if (barrier && options.precision == Precision::f32)
    refuse(outer, "divides by constraints that are nearly 0; expected precision f64, got f32");
  if (barrier && options.domain != DomainPolicy::mathematical)
    refuse(outer, "goes by logarithms outside of their domain; expected domain mathematical, got " +
                      std::string(name(options.domain)));
  const bool squares = problem.energy_count() == 0 && !barrier;
  const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
  options.method = squares ? Method::levenberg_marquardt : curves ? Method::newton : Method::lbfgs;
  // Conjugate gradients without a preconditioner do not see beyond the curvature of barriers.
  if (barrier && options.linear_solver == LinearSolver::automatic)
    options.linear_solver = LinearSolver::cholesky;
  // The least c decides how far a step may go: a search halves its step until all c > 0.
  if (barrier)
    options.line_search.max_evaluations =
        std::max(options.line_search.max_evaluations, kBarrierEvaluations);
  options.function_tolerance = options.parameter_tolerance = options.gradient_tolerance = 0;
  return options;
}

void run_constrained(Method method, Problem& problem, const ProblemModel& model,
                     const SolverOptions& options, Summary& summary, InnerSolves& inner) {
  if (method == Method::barrier) {
    Barrier(problem, model, options, summary, inner).run();
  } else {
    AugmentedLagrangian(problem, model, options, summary, inner).run();
  }
}

}  // namespace topograd
