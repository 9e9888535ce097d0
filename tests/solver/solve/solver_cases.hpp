// A problem that is solved repeatedly, with changes between solves.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/solve.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {

/// Points in space near observed places, neighbours at rest lengths: a rope.
struct Rope {
  explicit Rope(std::size_t points);

  std::size_t count;
  std::vector<double> start, x, observed;
  Problem problem;
  Parameters points;
  Data seen;
  Uniform weight;

  /// Adds two points in separate memory, tied to the rope; the first time also a point after them
  /// that stays.
  void draw();
  /// Removes the drawn points and frees their memory.
  void erase();
  std::unique_ptr<std::vector<double>> drawn;
  std::vector<double> last;
  Parameters drawn_points;
  std::vector<Residual> ties;
};

/// One change between two solves.
struct Change {
  std::string name;
  std::function<void(Rope&)> apply;
  bool sets_up = false;      ///< the next solve makes a new engine
  bool new_kernels = false;  ///< on a device: no block was fixed before
  bool known = false;        ///< nothing is analysed or compiled, even if it is the first
};

/// Changes, each after the ones before.
std::vector<Change> changes();

/// Solves the rope repeatedly with one Solver, and compares each solve with solve() of an equal
/// problem from the same start.
void expect_same_as_fresh_solves(const SolverOptions& options);

}  // namespace topograd::test
