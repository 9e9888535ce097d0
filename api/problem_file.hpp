// Problems as JSON files.
#pragma once

#include "../frontend/problem.hpp"
#include "../solver/options.hpp"
#include "problem_file/problem_file_curve.hpp"
#include "problem_file/problem_file_place.hpp"

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
  /// One entry of "residuals": its rows follow each other, instance by instance.
  struct Block {
    std::string label;
    std::uint64_t first_row = 0;
    std::size_t instances = 0;
    std::uint32_t rows = 0;             ///< of an instance
    std::vector<std::size_t> left_out;  ///< instances with weight 0, ascending
  };
  std::string title;
  std::vector<Array> parameters;  ///< in the order of the file; `problem` refers to their values
  std::vector<Block> residuals;   ///< in the order of the file
  /// Blocks that fit a curve to points; refer to `parameters`.
  std::vector<Curve> curves;
  Problem problem;
  SolverOptions options;  ///< the file's; the defaults where it says nothing
};

/// Builds the problem that `text` describes; `name` goes before messages.
///
///   read_file  gives the text of the CSV files that it names; null: paths are relative to the
///              folder of `name`
///
/// Throws Error{Parse}: "name:line:column: /pointer/into/the/file: expected ..., got ...".
/// Cost: linear in the text and in the instances.
std::unique_ptr<ProblemFile> parse_problem_file(std::string_view text, const std::string& name,
                                                const problem_file::FileReader& read_file = {});

/// The same of a file. Throws also Error{File}.
std::unique_ptr<ProblemFile> read_problem_file(const std::string& path);

}  // namespace topograd
