// Whole programs at one point: what several ways of computing the same numbers may differ by.
#pragma once

#include "../../../ir/checking/random_program.hpp"
#include "random.hpp"

#include <functional>

#include <optional>

namespace topograd::check {

/// Result for one program on one backend; `kind` empty: nothing wrong.
struct Finding {
  std::string kind, message;
  bool decided = true;
  bool finite = false;  ///< an output was finite and compared
};

/// Runs a program and its derivatives; one output a program output.
using Run = std::function<std::vector<double>(const ir::Program&, const ir::Point&)>;

/// Compares `run` of the program unoptimised, optimised, and differentiated both ways (by the
/// output with the most nodes among those that are finite), each within its running error bound.
///
///   point  numbers of T; tangents and seeds are set here
template <class T>
Finding end_to_end(const ir::Program& program, const ir::Point& point, const Run& run);

}  // namespace topograd::check
