// Problems as JSON files.
#pragma once

#include <topograd/frontend/problem.hpp>
#include <topograd/solver/options.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// A problem that was read from a file, and the memory that it works on. The form of the file is
/// docs/problem-files.md's.
struct ProblemFile {
  /// One array of unknowns: their start, and the solution after a solve.
  struct Array {
    std::string name;
    std::uint32_t width = 1;     ///< scalars of a block
    std::vector<double> values;  ///< block by block
  };
  std::vector<Array> parameters;  ///< in the order of the file; `problem` refers to their values
  Problem problem;
  SolverOptions options;  ///< the file's; the defaults where it says nothing
};

/// Builds the problem that `text` describes; `name` goes before messages.
///
/// Throws Error{Parse}: "name:line:column: /pointer/into/the/file: expected ..., got ...".
/// Cost: linear in the text and in the instances.
std::unique_ptr<ProblemFile> parse_problem_file(std::string_view text, const std::string& name);

/// The same of a file. Throws also Error{File}.
std::unique_ptr<ProblemFile> read_problem_file(const std::string& path);

}  // namespace topograd
