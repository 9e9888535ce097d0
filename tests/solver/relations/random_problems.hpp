// Random problems of many kinds that tests of relations and verdicts share.
#pragma once

#include "../../../frontend/problem.hpp"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {

/// A problem and its memory.
struct RandomProblem {
  std::string kind;
  unsigned seed = 0;
  std::deque<std::vector<double>> x;
  Problem problem;
  /// One minimum, which every method finds.
  bool convex = false;
  bool smooth = true;
  /// The unknowns have an origin: no manifold, and nothing in them that 1e-9 changes much.
  bool can_shift = true;

  std::string name() const { return kind + " " + std::to_string(seed); }
};

std::size_t random_kind_count();
/// Problem `seed` is of kind seed % random_kind_count(), and the same everywhere.
std::unique_ptr<RandomProblem> random_problem(unsigned seed);

}  // namespace topograd::test
