// A way to solve problems, for tests that compare several.
#pragma once

#include <string>

#include "../../solver/options.hpp"

namespace topograd::test {

struct Way {
  std::string name;
  SolverOptions options;
  bool knows_manifolds = true;
  bool settles = true;  ///< ends with CONVERGENCE at every problem of the test
};

}  // namespace topograd::test
