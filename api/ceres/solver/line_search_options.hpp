// Line search options of both solvers.
#pragma once

#include "../../../solver/options.hpp"

#include <string>
#include <vector>

namespace ceres::internal {

/// `Options` is Solver::Options or GradientProblemSolver::Options.
template <class Options>
topograd::LineSearchOptions LowerLineSearch(const Options& options) {
  return {.sufficient_decrease = options.line_search_sufficient_function_decrease,
          .sufficient_curvature_decrease = options.line_search_sufficient_curvature_decrease,
          .max_expansion = options.max_line_search_step_expansion,
          .min_step_size = options.min_line_search_step_size,
          .max_evaluations = options.max_num_line_search_step_size_iterations};
}

/// Names of line search options that differ from their defaults but never have an effect: only
/// L-BFGS with cubic interpolation for the strong Wolfe conditions is available.
template <class Options>
std::vector<std::string> LineSearchOptionsWithoutEffect(const Options& options) {
  static const auto& defaults = *new Options;
  std::vector<std::string> names;
#define TG_WITHOUT_EFFECT(field) \
  if (options.field != defaults.field) names.push_back(#field)
  TG_WITHOUT_EFFECT(line_search_direction_type);
  TG_WITHOUT_EFFECT(line_search_type);
  TG_WITHOUT_EFFECT(nonlinear_conjugate_gradient_type);
  TG_WITHOUT_EFFECT(use_approximate_eigenvalue_bfgs_scaling);
  TG_WITHOUT_EFFECT(line_search_interpolation_type);
  TG_WITHOUT_EFFECT(max_line_search_step_contraction);
  TG_WITHOUT_EFFECT(min_line_search_step_contraction);
  TG_WITHOUT_EFFECT(max_num_line_search_direction_restarts);
#undef TG_WITHOUT_EFFECT
  return names;
}

}  // namespace ceres::internal
