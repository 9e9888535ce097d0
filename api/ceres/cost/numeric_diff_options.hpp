// Step sizes of numeric differentiation.
#pragma once

namespace ceres {

/// Step sizes of NumericDiffCostFunction; names and defaults are those of Ceres.
struct NumericDiffOptions {
  double relative_step_size = 1e-6;  ///< step divided by |x|, for FORWARD and CENTRAL
  double ridders_relative_initial_step_size = 1e-2;
  int max_num_ridders_extrapolations = 10;
  double ridders_epsilon = 1e-12;         ///< estimated error at which the extrapolation stops
  double ridders_step_shrink_factor = 2;  ///< ratio of successive steps, > 1
};

}  // namespace ceres
