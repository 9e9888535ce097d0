// Small problems of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981, as scalar code.
#pragma once

#include <topograd/frontend/problem.hpp>

#include <functional>
#include <string>
#include <vector>

namespace topograd::test {

struct MghProblem {
  std::string name;
  std::vector<double> start;
  double minimum;  ///< published Σ r²
  std::function<void(Problem&, const Parameters&)> build;
};

/// The table: standard starts and published minima.
const std::vector<MghProblem>& mgh_problems();

}  // namespace topograd::test
