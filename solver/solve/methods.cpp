// Refuses methods by name, and runs those for constraints by another method.
#include "methods.hpp"

#include <algorithm>
#include <string>

#include "../../ir/error.hpp"
#include "../constrained/augmented_lagrangian.hpp"
#include "../constrained/barrier.hpp"
#include "../host/tangent_space.hpp"
#include "../model/host_terms.hpp"
#include "../model/model.hpp"

namespace topograd {
namespace {

void refuse_energies(const Problem& problem, Method method) {
  if (takes_energies(method)) return;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (!problem.is_energy(t) || problem.batch(t).size() == 0) continue;
    std::string label(problem.label(t));
    if (label.empty()) label = "energy" + std::to_string(t);
    throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) +
                                            " minimises sums of squares, the energy \"" + label +
                                            "\" is none; use lbfgs, newton, adam, adamw or sgd");
  }
}

void refuse_constraints(const Problem& problem, Method method) {
  if (problem.constraint_count() == 0) return;
  throw Error(ErrorCode::Unsupported,
              "solve: " + std::string(name(method)) + " knows no constraints, the problem has " +
                  std::to_string(problem.constraint_count()) +
                  "; use augmented_lagrangian, or barrier from a start inside of them");
}

/// Newton's method asks for what opaque code does not tell.
void refuse_host_blocks(const Problem& problem, Method method) {
  if (method != Method::newton || problem.host_blocks().empty()) return;
  throw Error(ErrorCode::Unsupported,
              "solve: newton takes second derivatives, " + host_name(problem, 0) +
                  " has none; use levenberg_marquardt, lbfgs, adam, adamw or sgd");
}

constexpr int kBarrierEvaluations = 60;

void refuse(Method method, const std::string& why) {
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " " + why);
}

}  // namespace

Method chosen_method(const Problem& problem) {
  if (problem.constraint_count() > 0) return Method::augmented_lagrangian;
  return problem.energy_count() > 0 ? Method::lbfgs : Method::levenberg_marquardt;
}

void check_method(const Problem& problem, Method method, bool constrained) {
  if (!constrained) refuse_constraints(problem, method);
  refuse_energies(problem, method);
  refuse_host_blocks(problem, method);
}

void check_bounds_and_manifolds(const Problem& problem, Method method, std::span<const double> x) {
  const bool bounded = has_bounds(problem);
  if (!bounded && !problem.has_manifolds()) return;
  const TangentSpace space(problem);
  const bool curved = !space.blocks().empty();
  if (bounded) space.check_bounds("solve", x);
  const bool lbfgs = method == Method::lbfgs;
  const bool knows_bounds = lbfgs || method == Method::newton;
  const bool refuses_bounds = bounded && (!knows_bounds || curved);
  if (!refuses_bounds && (!curved || lbfgs)) return;
  std::string others =
      problem.energy_count() > 0 ? "" : "levenberg_marquardt, gauss_newton, dogleg";
  if (!(bounded && curved)) others += (others.empty() ? "" : ", ") + std::string("lbfgs");
  if (!curved) others += ", newton";
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " knows no " +
                                          (!refuses_bounds ? "manifolds"
                                           : curved        ? "bounds beside manifolds"
                                                           : "bounds") +
                                          (others.empty() ? "" : "; expected one of " + others));
}

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
