// Blocks under robust losses and what their kernels must give.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/evaluator.hpp"

#include <string>
#include <vector>

namespace topograd::test {

struct RobustCase {
  std::string name;
  Loss loss;
  double scale;  ///< of the residuals: how far out they are
};
std::vector<RobustCase> robust_cases();

/// Blocks of one, two and three rows over two parameter blocks, evaluated in every way; compared
/// with Triggs' correction by hand in long double (f32: at x as float).
void check_robust(const RobustCase& row, const SolverOptions& options);

}  // namespace topograd::test
