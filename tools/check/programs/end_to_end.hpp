// Compares several ways to compute the same program at one point.
#pragma once

#include "../../../ir/checking/random_program.hpp"
#include "random.hpp"

#include <functional>

#include <optional>

namespace topograd::check {

/// Result for one program on one backend; `kind` is empty if nothing is wrong.
struct Finding {
  std::string kind, message;
  bool decided = true;
  bool finite = false;  ///< true if a finite output was compared
};

/// Runs a program and its derivatives; returns one number per program output.
using Run = std::function<std::vector<double>(const ir::Program&, const ir::Point&)>;

/// Compares the results of `run` for the program unoptimised, optimised, and differentiated in both
/// modes (by the finite output with the most nodes), each within its running error bound.
///
///   point  numbers of T; tangents and seeds are set here
template <class T>
Finding end_to_end(const ir::Program& program, const ir::Point& point, const Run& run);

}  // namespace topograd::check
