// The problems that the command knows by name.
#pragma once

#include "problems/mesh.hpp"

#include <topograd/frontend/problem.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace topograd::command {

/// How a problem is named on the command line.
struct ProblemArguments {
  std::string name;
  std::string mesh;                      ///< OBJ file: arap
  std::uint32_t width = 100;             ///< springs
  std::optional<std::uint64_t> shuffle;  ///< springs
};
/// Adds the options that name a problem; `name` is the first positional argument.
void add_problem_options(CLI::App& app, ProblemArguments& arguments, bool required = true);

/// A problem, the memory that it works on, and the mesh that it came from.
class NamedProblem {
 public:
  virtual ~NamedProblem() = default;
  virtual Problem& problem() = 0;
  /// The mesh with the present positions; empty if the problem has none.
  virtual problems::TriangleMesh mesh() const { return {}; }
  double build_seconds = 0;
};

/// Builds it, with the time that tracing took. Throws Error{InvalidArgument} for an unknown name or
/// a missing option, and what reading a mesh throws.
std::unique_ptr<NamedProblem> make_problem(const ProblemArguments& arguments);

}  // namespace topograd::command
