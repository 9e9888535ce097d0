// Steps of numeric differentiation.
#pragma once

namespace ceres {

/// How NumericDiffCostFunction chooses its steps; names and defaults are Ceres'.
struct NumericDiffOptions {
  double relative_step_size = 1e-6;  ///< step by |x|, for FORWARD and CENTRAL
  double ridders_relative_initial_step_size = 1e-2;
  int max_num_ridders_extrapolations = 10;
  double ridders_epsilon = 1e-12;         ///< estimated error at which to stop
  double ridders_step_shrink_factor = 2;  ///< from one difference to the next, > 1
};

}  // namespace ceres
