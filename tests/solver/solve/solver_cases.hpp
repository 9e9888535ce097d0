// A problem that is solved again and again, and what may change between two solves.
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

  /// Two more points, in memory of their own, tied to the rope; at first one after them that stays.
  void draw();
  /// Takes what was drawn away, and frees its memory.
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
  bool sets_up = false;      ///< the next solve makes its engine anew
  bool new_kernels = false;  ///< on a device: no block was constant before
  bool known = false;        ///< nothing is analysed or compiled, for whichever solve is the first
};

/// Each on top of the ones before.
std::vector<Change> changes();

/// Solves the rope again and again with one Solver, and checks each solve against solve() of an
/// equal problem from the same start.
void expect_same_as_fresh_solves(const SolverOptions& options);

}  // namespace topograd::test
