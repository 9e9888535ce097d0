// Cuts a traced array into residual blocks, and groups those with the same expression.
#pragma once

#include "array_graph.hpp"
#include "column.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace topograd::python {

/// An operation of a scalar expression; operands precede it.
struct Step {
  ir::Op op = ir::Op::Data;           ///< Parameter and Data are leaves
  std::uint32_t a = 0, b = 0, c = 0;  ///< operands; `a` of a leaf is its column

  bool operator==(const Step&) const = default;
};

/// Numbers of a data leaf: one for each block, or the same for all.
struct DataColumn {
  std::vector<double> values;  ///< empty if all are `constant`
  double constant = 0;
  bool from_text = false;  ///< numbers that stand in the program's text

  /// True if the number can be part of the structure: it stands in the text, is the same in all
  /// blocks, and is a multiple of 1/2.
  bool is_literal() const;
};

/// Residual blocks with the same expression.
struct RowGroup {
  std::vector<Step> steps;
  std::vector<std::uint32_t> outputs;  ///< step of each row of a block
  std::vector<Column> unknowns;        ///< index in x of each parameter leaf, for each block
  std::vector<DataColumn> data;        ///< of each data leaf
  std::vector<Index> rows;             ///< blocks x outputs: their elements of the array
  std::size_t count() const { return rows.size() / outputs.size(); }
};

/// The rows of residual blocks: `width` elements of an array for each block, block by block.
struct BlockRows {
  std::size_t width = 1;
  std::vector<Index> rows;
  std::size_t count() const { return rows.size() / width; }
};

/// The expressions of the blocks, in the order in which they first appear.
///
/// Throws Error{Unsupported} for expressions of more than a million operations, and for more than
/// graph.most_operations in all different single rows together. Cost: linear in
/// blocks times operations, without memory for anything but columns of positions.
std::vector<RowGroup> group_rows(const ArrayGraph& graph, NodeId root, const BlockRows& blocks);

/// The same, or nothing once different expressions have more than `operations` in all: rows at the
/// end of a long computation, each of which has the one before it in its expression.
std::optional<std::vector<RowGroup>> group_rows_within(const ArrayGraph& graph, NodeId root,
                                                       const BlockRows& blocks,
                                                       std::size_t operations);

}  // namespace topograd::python
