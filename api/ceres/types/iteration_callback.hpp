// IterationSummary, and callbacks that see it after every iteration or evaluation.
#pragma once

#include "types.hpp"

namespace ceres {

/// One trial step. Fields that no algorithm of ours fills in stay as they are here.
struct IterationSummary {
  int iteration = 0;  ///< 0 is the start
  bool step_is_valid = false;
  bool step_is_nonmonotonic = false;
  bool step_is_successful = false;
  double cost = 0;         ///< of the point that is held after the step
  double cost_change = 0;  ///< decrease from the point before
  double gradient_max_norm = 0;
  double gradient_norm = 0;
  double step_norm = 0;
  double relative_decrease = 0;
  double trust_region_radius = 0;
  double eta = 0;
  double step_size = 0;
  int line_search_function_evaluations = 0;
  int line_search_gradient_evaluations = 0;
  int line_search_iterations = 0;
  int linear_solver_iterations = 0;
  double iteration_time_in_seconds = 0;
  double step_solver_time_in_seconds = 0;
  double cumulative_time_in_seconds = 0;
};

/// Runs after every iteration, in the order of Solver::Options::callbacks; its answer can end the
/// solve.
class IterationCallback {
 public:
  virtual ~IterationCallback();
  virtual CallbackReturnType operator()(const IterationSummary& summary) = 0;
};

/// Runs before cost functions are evaluated at a point, with the point in the user's memory.
///
/// A problem with one runs all its cost functions on the CPU, because what they compute may depend
/// on what the callback leaves behind.
class EvaluationCallback {
 public:
  virtual ~EvaluationCallback();
  virtual void PrepareForEvaluation(bool evaluate_jacobians, bool new_evaluation_point) = 0;
};

}  // namespace ceres
