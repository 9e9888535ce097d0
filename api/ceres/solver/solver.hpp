// Solver::Options, Solver::Summary and Solve, with Ceres' names.
#pragma once

#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"
#include "../problem/problem.hpp"
#include "../types/solver_types.hpp"
#include "../types/types.hpp"

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace ceres {

class Solver {
 public:
  virtual ~Solver();

  /// Names and defaults are those of Ceres 2.2. Options without effect that differ from their
  /// defaults are listed in Summary::options_without_effect; docs/ceres.md lists all of them.
  struct Options {
    /// Returns false, with the reason, for numbers out of range.
    bool IsValid(std::string* error) const;

    MinimizerType minimizer_type = TRUST_REGION;
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

    TrustRegionStrategyType trust_region_strategy_type = LEVENBERG_MARQUARDT;
    DoglegType dogleg_type = TRADITIONAL_DOGLEG;
    bool use_nonmonotonic_steps = false;
    int max_consecutive_nonmonotonic_steps = 5;
    int max_num_iterations = 50;
    double max_solver_time_in_seconds = 1e9;
    int num_threads = 1;  ///< threads of the CPU interpreter
    double initial_trust_region_radius = 1e4;
    double max_trust_region_radius = 1e16;
    double min_trust_region_radius = 1e-32;
    double min_relative_decrease = 1e-3;
    double min_lm_diagonal = 1e-6;
    double max_lm_diagonal = 1e32;
    int max_num_consecutive_invalid_steps = 5;
    double function_tolerance = 1e-6;
    double gradient_tolerance = 1e-10;
    double parameter_tolerance = 1e-8;

    LinearSolverType linear_solver_type = SPARSE_NORMAL_CHOLESKY;
    PreconditionerType preconditioner_type = JACOBI;
    VisibilityClusteringType visibility_clustering_type = CANONICAL_VIEWS;
    std::unordered_set<ResidualBlockId> residual_blocks_for_subset_preconditioner;
    DenseLinearAlgebraLibraryType dense_linear_algebra_library_type = EIGEN;
    SparseLinearAlgebraLibraryType sparse_linear_algebra_library_type = SUITE_SPARSE;
    LinearSolverOrderingType linear_solver_ordering_type = AMD;
    std::shared_ptr<ParameterBlockOrdering> linear_solver_ordering;
    bool use_explicit_schur_complement = false;
    bool use_postordering = false;
    bool dynamic_sparsity = false;
    bool use_mixed_precision_solves = false;
    int max_num_refinement_iterations = 0;
    int max_num_spse_iterations = 5;
    bool use_spse_initialization = false;
    double spse_tolerance = 0.1;
    bool use_inner_iterations = false;
    std::shared_ptr<ParameterBlockOrdering> inner_iteration_ordering;
    double inner_iteration_tolerance = 1e-3;
    int min_linear_solver_iterations = 0;
    int max_linear_solver_iterations = 500;
    double eta = 1e-1;
    bool jacobi_scaling = true;

    LoggingType logging_type = PER_MINIMIZER_ITERATION;
    bool minimizer_progress_to_stdout = false;  ///< one line per iteration, unless SILENT
    std::vector<int> trust_region_minimizer_iterations_to_dump;
    std::string trust_region_problem_dump_directory = "/tmp";
    DumpFormatType trust_region_problem_dump_format_type = TEXTFILE;
    bool check_gradients = false;
    double gradient_check_relative_precision = 1e-8;
    double gradient_check_numeric_derivative_relative_step_size = 1e-6;
    /// Writes the best point to the user's memory before each callback, not only after the solve.
    bool update_state_every_iteration = false;
    std::vector<IterationCallback*> callbacks;  ///< not owned

    /// An addition to Ceres' interface, for options without a Ceres name, such as backend, device
    /// and precision. Fields with a counterpart above are ignored. Steps are as long as in Ceres.
    topograd::SolverOptions topograd{.rescale_steps = false};
  };

  struct Summary {
    std::string BriefReport() const;
    std::string FullReport() const;
    bool IsSolutionUsable() const;

    MinimizerType minimizer_type = TRUST_REGION;
    TerminationType termination_type = FAILURE;
    std::string message = "ceres::Solve was not called.";
    double initial_cost = -1;
    double final_cost = -1;
    double fixed_cost = -1;
    std::vector<IterationSummary> iterations;
    int num_successful_steps = -1;
    int num_unsuccessful_steps = -1;
    int num_inner_iteration_steps = -1;
    int num_line_search_steps = -1;
    double preprocessor_time_in_seconds = -1;
    double minimizer_time_in_seconds = -1;
    double postprocessor_time_in_seconds = -1;
    double total_time_in_seconds = -1;
    double linear_solver_time_in_seconds = -1;
    int num_linear_solves = -1;
    double residual_evaluation_time_in_seconds = -1;  ///< residuals and Jacobians together
    int num_residual_evaluations = -1;
    double jacobian_evaluation_time_in_seconds = -1;
    int num_jacobian_evaluations = -1;
    double inner_iteration_time_in_seconds = -1;
    double line_search_cost_evaluation_time_in_seconds = -1;
    double line_search_gradient_evaluation_time_in_seconds = -1;
    double line_search_polynomial_minimization_time_in_seconds = -1;
    double line_search_total_time_in_seconds = -1;

    // Sizes of the problem, and of the part that is left without constant blocks.
    int num_parameter_blocks = -1;
    int num_parameters = -1;
    int num_effective_parameters = -1;
    int num_residual_blocks = -1;
    int num_residuals = -1;
    int num_parameter_blocks_reduced = -1;
    int num_parameters_reduced = -1;
    int num_effective_parameters_reduced = -1;
    int num_residual_blocks_reduced = -1;
    int num_residuals_reduced = -1;

    bool is_constrained = false;
    int num_threads_given = -1;
    int num_threads_used = -1;
    LinearSolverType linear_solver_type_given = SPARSE_NORMAL_CHOLESKY;
    LinearSolverType linear_solver_type_used = SPARSE_NORMAL_CHOLESKY;
    std::vector<int> linear_solver_ordering_given;
    std::vector<int> linear_solver_ordering_used;
    std::string schur_structure_given;
    std::string schur_structure_used;
    bool inner_iterations_given = false;
    bool inner_iterations_used = false;
    std::vector<int> inner_iteration_ordering_given;
    std::vector<int> inner_iteration_ordering_used;
    PreconditionerType preconditioner_type_given = IDENTITY;
    PreconditionerType preconditioner_type_used = IDENTITY;
    VisibilityClusteringType visibility_clustering_type = CANONICAL_VIEWS;
    TrustRegionStrategyType trust_region_strategy_type = LEVENBERG_MARQUARDT;
    DoglegType dogleg_type = TRADITIONAL_DOGLEG;
    DenseLinearAlgebraLibraryType dense_linear_algebra_library_type = EIGEN;
    SparseLinearAlgebraLibraryType sparse_linear_algebra_library_type = NO_SPARSE;
    LineSearchDirectionType line_search_direction_type = LBFGS;
    LineSearchType line_search_type = WOLFE;
    LineSearchInterpolationType line_search_interpolation_type = CUBIC;
    NonlinearConjugateGradientType nonlinear_conjugate_gradient_type = FLETCHER_REEVES;
    int max_lbfgs_rank = -1;

    // Additions to Ceres' interface.
    /// Options that differ from their defaults but had no effect, by name.
    std::vector<std::string> options_without_effect;
    /// Residual blocks that ran as opaque code on the CPU, with the reason: one line per reason.
    std::vector<std::string> host_notes;
    /// The solve as it ran: backend, device and reason, topologies, phases.
    topograd::Summary topograd;
  };

  virtual void Solve(const Options& options, Problem* problem, Summary* summary);
};

/// Minimises the problem and writes the best point to the user's parameter blocks; `summary`
/// reports the result, including failures. Throws only exceptions of user code.
void Solve(const Solver::Options& options, Problem* problem, Solver::Summary* summary);

}  // namespace ceres
