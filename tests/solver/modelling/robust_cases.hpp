// Blocks under robust losses and the expected results of their kernels.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/evaluator.hpp"

#include <string>
#include <vector>

namespace topograd::test {

struct RobustCase {
  std::string name;
  Loss loss;
  double scale;  ///< of the residuals: how far they are outliers
};
std::vector<RobustCase> robust_cases();

/// Compares blocks of one, two and three rows over two parameter blocks, evaluated in every way,
/// with Triggs' correction by hand in long double (f32: at x as float).
void check_robust(const RobustCase& row, const SolverOptions& options);

}  // namespace topograd::test
