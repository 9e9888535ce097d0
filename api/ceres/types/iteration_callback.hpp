// IterationSummary, and callbacks after every iteration or before evaluations.
#pragma once

#include "types.hpp"

namespace ceres {

/// One trial step. Fields that no algorithm of the library sets keep these defaults.
struct IterationSummary {
  int iteration = 0;  ///< 0 for the start
  bool step_is_valid = false;
  bool step_is_nonmonotonic = false;
  bool step_is_successful = false;
  double cost = 0;         ///< of the current point after the step
  double cost_change = 0;  ///< decrease from the previous point
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

/// Called after every iteration, in the order of Solver::Options::callbacks; the result can end the
/// solve.
class IterationCallback {
 public:
  virtual ~IterationCallback();
  virtual CallbackReturnType operator()(const IterationSummary& summary) = 0;
};

/// Called before cost functions are evaluated at a point, with the point in the user's memory.
///
/// A problem with such a callback runs all cost functions on the CPU, because they may read data
/// that the callback prepares.
class EvaluationCallback {
 public:
  virtual ~EvaluationCallback();
  virtual void PrepareForEvaluation(bool evaluate_jacobians, bool new_evaluation_point) = 0;
};

}  // namespace ceres
