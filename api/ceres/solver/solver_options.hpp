// Conversion of Solver::Options to topograd::SolverOptions, and checks of numeric options.
#pragma once

#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../../solver/options.hpp"
#include "solver.hpp"

namespace ceres::internal {

/// Checks of numeric options, with a message for the first failure.
class Checks {
 public:
  /// `owner` names the options in messages: "Solver::Options".
  explicit Checks(std::string owner) : owner_(std::move(owner)) {}

  template <class Number>
  void AtLeast(const char* name, Number value, Number least) {
    if (!(value >= least)) Complain(name, ">=", value, least);
  }
  template <class Number>
  void Above(const char* name, Number value, Number bound) {
    if (!(value > bound)) Complain(name, ">", value, bound);
  }
  /// Checks that two options are in order.
  template <class Number>
  void Ordered(const char* low_name, Number low, const char* high_name, Number high) {
    if (!(low <= high)) Complain(low_name, "<=", low, owner_ + "::" + high_name);
  }
  /// True if all checks passed; otherwise `error`, unless nullptr, receives the first message.
  bool Passed(std::string* error) const {
    if (text_.empty()) return true;
    if (error != nullptr) *error = text_;
    return false;
  }

 private:
  template <class Number, class Bound>
  void Complain(const char* name, const char* relation, Number value, const Bound& bound) {
    if (!text_.empty()) return;
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out << "Invalid configuration. " << owner_ << "::" << name << " = " << value
        << ". Violated constraint: " << owner_ << "::" << name << " " << relation << " " << bound;
    text_ = out.str();
  }

  std::string owner_, text_;
};

/// A limit of zero ends a solve after its start.
inline double LowerTimeLimit(double seconds) {
  return seconds > 0 ? seconds : std::numeric_limits<double>::min();
}

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

/// Converts all options except callbacks.
///
///   entries  number of entries of a dense Jacobian: rows times columns
topograd::SolverOptions Lower(const Solver::Options& options, double entries);

/// True if Options::linear_solver_ordering determines the eliminated blocks.
bool TakesOrdering(const Solver::Options& options);

/// Names of options that differ from their defaults and have no effect.
std::vector<std::string> OptionsWithoutEffect(const Solver::Options& options);

/// Ceres' name of the linear solver that ran when `given` was requested.
LinearSolverType UsedLinearSolver(LinearSolverType given, topograd::LinearSolver used);

}  // namespace ceres::internal
