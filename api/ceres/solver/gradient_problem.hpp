// GradientProblem and its solver: L-BFGS on a scalar cost with a gradient, with Ceres' names.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "../cost/first_order_function.hpp"
#include "../manifold/local_parameterization.hpp"
#include "../manifold/manifold.hpp"
#include "../types/solver_types.hpp"
#include "../types/types.hpp"

namespace ceres {

/// A first-order function of one parameter block, which may move on a manifold.
class GradientProblem {
 public:
  /// Takes ownership.
  explicit GradientProblem(FirstOrderFunction* function);
  /// Takes ownership of both. Throws Error{Shape} if the manifold's size is wrong.
  GradientProblem(FirstOrderFunction* function, Manifold* manifold);
  template <std::derived_from<LocalParameterization> Parameterization>
  GradientProblem(FirstOrderFunction* function, Parameterization* parameterization)
      : GradientProblem(function, static_cast<Manifold*>(new internal::ParameterizationManifold(
                                      parameterization, TAKE_OWNERSHIP))) {}

  int NumParameters() const { return function_->NumParameters(); }
  int NumTangentParameters() const {
    return manifold_ == nullptr ? NumParameters() : manifold_->TangentSize();
  }
  int NumLocalParameters() const { return NumTangentParameters(); }

  /// Cost and tangent-space gradient; `gradient` may be nullptr. Returns false outside of the
  /// domain.
  bool Evaluate(const double* parameters, double* cost, double* gradient) const;
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const;

  const FirstOrderFunction* function() const { return function_.get(); }
  FirstOrderFunction* mutable_function() { return function_.get(); }
  const Manifold* manifold() const { return manifold_.get(); }
  Manifold* mutable_manifold() { return manifold_.get(); }

 private:
  std::unique_ptr<FirstOrderFunction> function_;
  std::unique_ptr<Manifold> manifold_;
};

/// L-BFGS for a GradientProblem, with Ceres' names.
class GradientProblemSolver {
 public:
  virtual ~GradientProblemSolver();

  /// Names and defaults are those of Ceres 2.2. Options without effect are listed in
  /// Summary::options_without_effect.
  struct Options {
    bool IsValid(std::string* error) const;

    LineSearchDirectionType line_search_direction_type = LBFGS;
    LineSearchType line_search_type = WOLFE;
    NonlinearConjugateGradientType nonlinear_conjugate_gradient_type = FLETCHER_REEVES;
    int max_lbfgs_rank = 20;
    bool use_approximate_eigenvalue_bfgs_scaling = false;
    LineSearchInterpolationType line_search_interpolation_type = CUBIC;
    double min_line_search_step_size = 1e-9;
    double line_search_sufficient_function_decrease = 1e-4;
    double max_line_search_step_contraction = 1e-3;
    double min_line_search_step_contraction = 0.6;
    int max_num_line_search_step_size_iterations = 20;
    int max_num_line_search_direction_restarts = 5;
    double line_search_sufficient_curvature_decrease = 0.9;
    double max_line_search_step_expansion = 10;
    int max_num_iterations = 50;
    double max_solver_time_in_seconds = 1e9;
    double function_tolerance = 1e-6;
    double gradient_tolerance = 1e-10;
    double parameter_tolerance = 1e-8;
    LoggingType logging_type = PER_MINIMIZER_ITERATION;
    bool minimizer_progress_to_stdout = false;
    bool update_state_every_iteration = false;
    std::vector<IterationCallback*> callbacks;  ///< not owned
  };

  struct Summary {
    std::string BriefReport() const;
    std::string FullReport() const;
    bool IsSolutionUsable() const;

    TerminationType termination_type = FAILURE;
    std::string message = "ceres::GradientProblemSolve was not called.";
    double initial_cost = -1;
    double final_cost = -1;
    std::vector<IterationSummary> iterations;
    int num_cost_evaluations = -1;
    int num_gradient_evaluations = -1;
    double total_time_in_seconds = -1;
    double cost_evaluation_time_in_seconds = -1;
    double gradient_evaluation_time_in_seconds = -1;  ///< costs and gradients together
    double line_search_polynomial_minimization_time_in_seconds = -1;
    int num_parameters = -1;
    int num_tangent_parameters = -1;
    int num_local_parameters = -1;
    LineSearchDirectionType line_search_direction_type = LBFGS;
    LineSearchType line_search_type = WOLFE;
    LineSearchInterpolationType line_search_interpolation_type = CUBIC;
    NonlinearConjugateGradientType nonlinear_conjugate_gradient_type = FLETCHER_REEVES;
    int max_lbfgs_rank = -1;
    /// Options that differ from their defaults but have no effect. An addition to Ceres' interface.
    std::vector<std::string> options_without_effect;
  };

  virtual void Solve(const Options& options, const GradientProblem& problem, double* parameters,
                     Summary* summary);
};

/// Minimises from `parameters`, which receive the best point.
void Solve(const GradientProblemSolver::Options& options, const GradientProblem& problem,
           double* parameters, GradientProblemSolver::Summary* summary);

}  // namespace ceres
