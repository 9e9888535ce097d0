// Problems as JSON files.
#pragma once

#include "../frontend/problem.hpp"
#include "../ir/share.hpp"
#include "../solver/options.hpp"
#include "problem_file/problem_file_curve.hpp"
#include "problem_file/problem_file_document.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// A problem read from a file, with its memory. docs/problem-files.md describes the format.
struct ProblemFile {
  /// One array of unknowns: start values, and the solution after a solve.
  struct Array {
    std::string name;
    std::uint32_t width = 1;     ///< scalars per block
    std::vector<double> values;  ///< block by block
  };
  /// One entry of "residuals"; its rows are stored one instance after the other.
  struct Block {
    std::string label;
    std::uint64_t first_row = 0;  ///< in the problem of the whole file, as `instances` are
    std::size_t instances = 0;
    std::uint32_t rows = 0;             ///< rows per instance
    std::vector<std::size_t> left_out;  ///< instances with weight 0, ascending
  };
  /// One CSV file that numbers come from.
  struct Table {
    std::string path;      ///< as the file has it
    std::size_t rows = 0;  ///< rows of numbers that were read
    bool header = false;   ///< the row before them holds names
    /// Rows that were skipped because a number is missing; only with "skip_missing".
    std::optional<std::size_t> skipped;
  };
  std::string title;
  std::vector<Array> parameters;  ///< in the order of the file; `problem` refers to their values
  std::vector<Block> residuals;   ///< in the order of the file
  std::vector<Table> tables;      ///< by path
  /// Residual blocks that fit a curve to points; they refer to `parameters`.
  std::vector<Curve> curves;
  Problem problem;
  SolverOptions options;  ///< options of the file; defaults for the others
};

/// Builds the problem that `text` describes; messages begin with `name`.
///
///   read_file  returns the text of a CSV file that `text` names; null: paths are relative to the
///              folder of `name`
///   share      of the instances of all residuals, one after the other; the problem has no others.
///              Constraints are there in any share
///
/// Throws Error{Parse}: "name:line:column: /pointer/into/the/file: expected ..., got ...". Cost:
/// linear in the text and in the number of instances.
std::unique_ptr<ProblemFile> parse_problem_file(std::string_view text, const std::string& name,
                                                const problem_file::FileReader& read_file = {},
                                                Share share = {});

/// The same for a file. Also throws Error{File}.
std::unique_ptr<ProblemFile> read_problem_file(const std::string& path, Share share = {});

}  // namespace topograd
