// Cuts a traced array into residual blocks, and groups those with the same expression by columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "array_graph.hpp"

namespace topograd::python {

/// Positions of elements, one for each row: listed, or first, first + step, first + 2 step, ...
/// Slices and whole arrays are such sequences, so that their columns cost nothing per row.
struct Column {
  std::vector<Index> positions;  ///< empty for a sequence
  Index first = 0;
  std::int64_t step = 0;

  /// The same position for all rows.
  static Column constant(Index position) { return {{}, position, 0}; }

  bool is_constant() const { return positions.empty() && step == 0; }
  Index operator[](std::size_t row) const {
    return positions.empty() ? element(row) : positions[row];
  }
  /// Writes a list of `rows` positions as a sequence if it is one. Equal columns of as many rows
  /// are equal objects then.
  void simplify();
  /// Adds `more`, of `count` rows, after the `rows` rows of this column.
  void append(std::size_t rows, const Column& more, std::size_t count);
  bool operator==(const Column&) const = default;

 private:
  Index element(std::size_t row) const {
    return static_cast<Index>(std::int64_t{first} + static_cast<std::int64_t>(row) * step);
  }
};

using ColumnId = std::uint32_t;

/// Numbers by 64-bit keys other than ~0: a hash table with open addressing, which costs little to
/// make and to destroy while it is small.
class NumberMap {
 public:
  /// The number of a key, which is `number` if it had none.
  std::uint32_t emplace(std::uint64_t key, std::uint32_t number);

 private:
  struct Slot {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t number = 0;
  };
  Slot& slot_of(std::uint64_t key);
  void grow();

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

/// The different columns of one group of rows.
class Columns {
 public:
  ///   rows  length of every column
  explicit Columns(std::size_t rows) : rows_(rows) {}

  /// The number of this column, which is that of an equal one added before. Cost: linear in listed
  /// rows.
  ColumnId add(Column column);
  /// The column that has this position in all rows.
  ColumnId add_constant(Index position);
  /// Positions in the view's array of the elements scale * column + shift of the view.
  ColumnId through(const Layout& view, ColumnId column, Index scale, Index shift);
  /// list[column] of each row.
  ColumnId in_list(const std::vector<Index>& list, ColumnId column);

  const Column& operator[](ColumnId id) const { return columns_[id]; }
  std::size_t rows() const { return rows_; }

 private:
  std::size_t rows_;
  std::vector<Column> columns_;
  NumberMap constants_;  // by position
  std::unordered_multimap<std::uint64_t, ColumnId> by_hash_;
};

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
struct ResidualRows {
  std::size_t width = 1;
  std::vector<Index> rows;
  std::size_t count() const { return rows.size() / width; }
};

/// The expressions of the blocks, in the order in which they first appear.
///
/// Throws Error{Unsupported} for expressions of more than a million operations, and for more than
/// graph.most_operations in all different single rows together. Cost: linear in
/// blocks times operations, without memory for anything but columns of positions.
std::vector<RowGroup> group_rows(const ArrayGraph& graph, NodeId root, const ResidualRows& blocks);

/// The same, or nothing once different expressions have more than `operations` in all: rows at the
/// end of a long computation, each of which has the one before it in its expression.
std::optional<std::vector<RowGroup>> group_rows_within(const ArrayGraph& graph, NodeId root,
                                                       const ResidualRows& blocks,
                                                       std::size_t operations);

}  // namespace topograd::python
