// The content of a problem file, before anything is built from it.
#pragma once

#include "../../frontend/block_kind.hpp"
#include "../../frontend/loss.hpp"
#include "../../frontend/manifold.hpp"
#include "../../solver/options.hpp"
#include "problem_file_document.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::problem_file {

/// An array of parameters or of data.
struct ArrayDescription {
  std::string name;
  std::uint32_t width = 1;
  std::vector<double> values;           ///< a multiple of width, at least one block
  bool all_constant = false;            ///< parameters
  std::vector<std::uint32_t> constant;  ///< parameters: fixed blocks
  std::vector<double> lower, upper;     ///< parameters: one per scalar; empty: no bounds
  std::optional<Manifold> manifold;     ///< parameters: manifold of every block
  std::string pointer;

  std::size_t blocks() const { return values.size() / width; }
};

struct UniformDescription {
  std::string name;
  double value = 0;
  std::string pointer;
};

/// The values of a name in each instance of a block: blocks of an array, or numbers given in the
/// file where the name is bound.
struct Binding {
  std::string name;
  std::string array;                   ///< empty: `numbers`
  std::vector<std::uint32_t> index;    ///< block of each instance; empty: see `block`
  std::optional<std::uint32_t> block;  ///< block of all instances; empty: instance i reads block i
  std::optional<std::uint32_t> coordinate;  ///< the only coordinate that the name reads
  std::vector<double> numbers;              ///< one per instance, or one for all
  bool one_for_all = false;                 ///< `numbers` is one number
  std::string pointer;
};

struct BlockDescription {
  BlockKind kind = BlockKind::residual;
  std::string label;
  std::vector<std::string> expressions;
  std::vector<Binding> parameters, data;
  std::optional<Binding> weight;
  std::optional<std::uint32_t> count;
  Loss loss;
  std::string pointer;
};

/// A CSV file that was read.
struct TableDescription {
  std::string path;                    ///< as the problem file has it
  std::size_t rows = 0;                ///< rows of numbers
  bool header = false;                 ///< the row before them holds names
  std::optional<std::size_t> skipped;  ///< rows, with "skip_missing"
};

struct Description {
  std::string title;
  std::uint32_t repeat = 1;  ///< problems of which the file describes one
  std::vector<ArrayDescription> parameters, data;
  std::vector<UniformDescription> uniforms;
  std::vector<BlockDescription> residuals;
  std::vector<BlockDescription>
      constraints;                       ///< equalities, then inequalities; without weight and loss
  std::vector<TableDescription> tables;  ///< by path
  SolverOptions options;
};

/// Parses the JSON and checks its form, not its references. Throws Error{Parse} with the position.
Description read_description(const Document& document);
/// Makes the description that of all `repeat` problems: each has its own unknowns, and lists of
/// data have the entries of one problem or of all of them, one problem after the other. Throws
/// Error{Parse} with the position.
void repeat(const Document& document, Description& description);

}  // namespace topograd::problem_file
