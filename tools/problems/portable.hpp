// Small problems whose inputs are the same numbers on every machine, with how they are solved.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../solver/options.hpp"

#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// A problem and its memory.
struct PortableProblem {
  std::deque<std::vector<double>> x;  ///< by array of unknowns
  Problem problem;
  SolverOptions options;  ///< method, linear solver and number of steps
};

/// Springs, deformation of a grid by rotations, bundle adjustment, a pose graph, fits of curves,
/// and blocks that use every function. Inputs are made by + − × ÷ √ on whole numbers, since a
/// function of the C library may have other bits elsewhere.
struct PortableRow {
  std::string_view name;
  bool emulated;  ///< compilers take seconds at most for its kernels with emulated float64
  std::unique_ptr<PortableProblem> (*make)();
};
std::span<const PortableRow> portable_problems();

}  // namespace topograd::problems
