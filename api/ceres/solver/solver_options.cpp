// Solver::Options as topograd::SolverOptions, and the options without effect.
#include "solver_options.hpp"

#include <algorithm>

namespace ceres {
namespace internal {
namespace {

bool Eliminates(LinearSolverType type) {
  return type == DENSE_SCHUR || type == SPARSE_SCHUR || type == ITERATIVE_SCHUR;
}

bool Iterates(LinearSolverType type) { return type == ITERATIVE_SCHUR || type == CGNR; }

/// Conjugate gradients make at least one step for any η.
constexpr double kLargestEta = 0.999;

/// Where conjugate gradients serve a direct solver, they go on until the residual is rounding; the
/// limit of iterations is for matrices on which they do not get there.
constexpr double kExact = 1e-10, kExactInF32 = 1e-6;
constexpr int kMostExact = 100'000;

/// Ends of conjugate gradients. Direct solvers use `topograd.linear_tolerance` alone if it differs
/// from its default, whatever η says.
void LowerTolerances(const Solver::Options& options, topograd::SolverOptions& out) {
  const int most = std::max(options.max_linear_solver_iterations, 1);
  if (Iterates(options.linear_solver_type)) {
    // Only the η test of Ceres' two is used; a residual small enough for the other is rounding.
    out.eta = std::min(options.eta, kLargestEta);
    out.linear_tolerance = std::min(options.topograd.linear_tolerance, out.eta);
    out.max_linear_iterations = most;
    return;
  }
  const bool wide = out.precision == topograd::Precision::f64;
  out.eta = 0;
  if (out.linear_tolerance == topograd::SolverOptions{}.linear_tolerance)
    out.linear_tolerance = wide ? kExact : kExactInF32;
  out.max_linear_iterations = wide ? std::max(most, kMostExact) : most;
}

topograd::LinearSolver Lower(LinearSolverType type, double entries) {
  // A dense Jacobian with more entries is solved by normal equations instead of QR.
  constexpr double kMostDense = 1e6;
  if (type == CGNR) return topograd::LinearSolver::pcg;
  if (Eliminates(type)) return topograd::LinearSolver::schur;
  if (type == DENSE_QR && entries <= kMostDense) return topograd::LinearSolver::dense;
  return topograd::LinearSolver::cholesky;
}

topograd::Method LowerMethod(const Solver::Options& options) {
  if (options.minimizer_type == LINE_SEARCH) return topograd::Method::lbfgs;
  return options.trust_region_strategy_type == DOGLEG ? topograd::Method::dogleg
                                                      : topograd::Method::levenberg_marquardt;
}

}  // namespace

bool TakesOrdering(const Solver::Options& options) {
  return options.minimizer_type == TRUST_REGION && Eliminates(options.linear_solver_type);
}

topograd::SolverOptions Lower(const Solver::Options& options, double entries) {
  topograd::SolverOptions out = options.topograd;
  out.method = LowerMethod(options);
  out.dogleg_type = options.dogleg_type == SUBSPACE_DOGLEG ? topograd::DoglegType::subspace
                                                           : topograd::DoglegType::traditional;
  out.use_nonmonotonic_steps = options.use_nonmonotonic_steps;
  out.max_consecutive_nonmonotonic_steps = options.max_consecutive_nonmonotonic_steps;
  out.update_state_every_iteration = options.update_state_every_iteration;
  out.linear_solver = Lower(options.linear_solver_type, entries);
  if (options.linear_solver_type == ITERATIVE_SCHUR ||
      (options.linear_solver_type == CGNR &&
       out.preconditioner == topograd::Preconditioner::automatic))
    out.preconditioner = topograd::Preconditioner::block_jacobi;
  out.max_iterations = options.max_num_iterations;
  out.time_limit_seconds = LowerTimeLimit(options.max_solver_time_in_seconds);
  out.function_tolerance = options.function_tolerance;
  out.gradient_tolerance = options.gradient_tolerance;
  out.parameter_tolerance = options.parameter_tolerance;
  out.initial_trust_region_radius = options.initial_trust_region_radius;
  out.min_trust_region_radius = options.min_trust_region_radius;
  out.max_trust_region_radius = options.max_trust_region_radius;
  out.min_relative_decrease = options.min_relative_decrease;
  out.min_lm_diagonal = options.min_lm_diagonal;
  out.max_lm_diagonal = options.max_lm_diagonal;
  out.jacobi_scaling = options.jacobi_scaling;
  out.scale_free = false;
  out.components = topograd::Components::together;  // one damping, one history
  out.max_consecutive_invalid_steps = options.max_num_consecutive_invalid_steps;
  LowerTolerances(options, out);
  out.threads = options.num_threads;
  out.max_lbfgs_rank = options.max_lbfgs_rank;
  out.line_search = LowerLineSearch(options);
  return out;
}

std::vector<std::string> OptionsWithoutEffect(const Solver::Options& options) {
  static const auto& defaults = *new Solver::Options;
  std::vector<std::string> names;
#define TG_WITHOUT_EFFECT(field) \
  if (options.field != defaults.field) names.push_back(#field)
  if (options.preconditioner_type != SCHUR_JACOBI || options.linear_solver_type != ITERATIVE_SCHUR)
    TG_WITHOUT_EFFECT(preconditioner_type);
  TG_WITHOUT_EFFECT(visibility_clustering_type);
  TG_WITHOUT_EFFECT(residual_blocks_for_subset_preconditioner);
  TG_WITHOUT_EFFECT(dense_linear_algebra_library_type);
  TG_WITHOUT_EFFECT(sparse_linear_algebra_library_type);
  TG_WITHOUT_EFFECT(linear_solver_ordering_type);
  if (!TakesOrdering(options)) TG_WITHOUT_EFFECT(linear_solver_ordering);
  TG_WITHOUT_EFFECT(use_explicit_schur_complement);
  TG_WITHOUT_EFFECT(use_postordering);
  TG_WITHOUT_EFFECT(dynamic_sparsity);
  TG_WITHOUT_EFFECT(use_mixed_precision_solves);
  TG_WITHOUT_EFFECT(max_num_refinement_iterations);
  TG_WITHOUT_EFFECT(max_num_spse_iterations);
  TG_WITHOUT_EFFECT(use_spse_initialization);
  TG_WITHOUT_EFFECT(spse_tolerance);
  TG_WITHOUT_EFFECT(use_inner_iterations);
  TG_WITHOUT_EFFECT(inner_iteration_ordering);
  TG_WITHOUT_EFFECT(inner_iteration_tolerance);
  TG_WITHOUT_EFFECT(min_linear_solver_iterations);
  if (!Iterates(options.linear_solver_type)) TG_WITHOUT_EFFECT(eta);
  TG_WITHOUT_EFFECT(trust_region_minimizer_iterations_to_dump);
  TG_WITHOUT_EFFECT(trust_region_problem_dump_directory);
  TG_WITHOUT_EFFECT(trust_region_problem_dump_format_type);
  if (!options.check_gradients) {
    TG_WITHOUT_EFFECT(gradient_check_relative_precision);
    TG_WITHOUT_EFFECT(gradient_check_numeric_derivative_relative_step_size);
  }
  if (options.minimizer_type == TRUST_REGION) {
    TG_WITHOUT_EFFECT(max_lbfgs_rank);
    TG_WITHOUT_EFFECT(min_line_search_step_size);
    TG_WITHOUT_EFFECT(line_search_sufficient_function_decrease);
    TG_WITHOUT_EFFECT(max_num_line_search_step_size_iterations);
    TG_WITHOUT_EFFECT(line_search_sufficient_curvature_decrease);
    TG_WITHOUT_EFFECT(max_line_search_step_expansion);
    if (options.trust_region_strategy_type != DOGLEG) TG_WITHOUT_EFFECT(dogleg_type);
  } else {
    TG_WITHOUT_EFFECT(trust_region_strategy_type);
    TG_WITHOUT_EFFECT(use_nonmonotonic_steps);
    TG_WITHOUT_EFFECT(linear_solver_type);
  }
  for (const std::string& name : LineSearchOptionsWithoutEffect(options)) names.push_back(name);
#undef TG_WITHOUT_EFFECT
  return names;
}

LinearSolverType UsedLinearSolver(LinearSolverType given, topograd::LinearSolver used) {
  using topograd::LinearForm;
  switch (topograd::form_of(used)) {
    case LinearForm::products: return CGNR;
    case LinearForm::jacobian: return DENSE_QR;
    case LinearForm::elimination: return Eliminates(given) ? given : SPARSE_SCHUR;
    case LinearForm::factor:
    case LinearForm::undecided: break;
  }
  return given == DENSE_NORMAL_CHOLESKY ? given : SPARSE_NORMAL_CHOLESKY;
}

}  // namespace internal

bool Solver::Options::IsValid(std::string* error) const {
  internal::Checks checks("Solver::Options");
#define TG_AT_LEAST(field, bound) checks.AtLeast(#field, field, decltype(field)(bound))
#define TG_ABOVE(field, bound) checks.Above(#field, field, decltype(field)(bound))
#define TG_ORDERED(low, high) checks.Ordered(#low, low, #high, high)
  TG_AT_LEAST(max_num_iterations, 0);
  TG_AT_LEAST(max_solver_time_in_seconds, 0);
  TG_AT_LEAST(num_threads, 1);
  TG_AT_LEAST(function_tolerance, 0);
  TG_AT_LEAST(gradient_tolerance, 0);
  TG_AT_LEAST(parameter_tolerance, 0);
  TG_ABOVE(min_trust_region_radius, 0);
  TG_ORDERED(min_trust_region_radius, max_trust_region_radius);
  TG_ORDERED(min_trust_region_radius, initial_trust_region_radius);
  TG_ORDERED(initial_trust_region_radius, max_trust_region_radius);
  TG_AT_LEAST(min_relative_decrease, 0);
  TG_AT_LEAST(min_lm_diagonal, 0);
  TG_ORDERED(min_lm_diagonal, max_lm_diagonal);
  TG_AT_LEAST(max_num_consecutive_invalid_steps, 0);
  TG_ABOVE(eta, 0);
  TG_AT_LEAST(min_linear_solver_iterations, 0);
  TG_AT_LEAST(max_linear_solver_iterations, 1);
  TG_AT_LEAST(max_consecutive_nonmonotonic_steps, 1);
  TG_ABOVE(max_lbfgs_rank, 0);
#undef TG_AT_LEAST
#undef TG_ABOVE
#undef TG_ORDERED
  return checks.Passed(error);
}

}  // namespace ceres
