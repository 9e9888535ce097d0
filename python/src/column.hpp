// Columns of positions, one for each row of a group; equal columns are one column.
#pragma once

#include "array_graph.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace topograd::python {

/// Positions of elements, one for each row, or the same for all rows.
struct Column {
  std::vector<Index> positions;  ///< empty if all are `constant`
  Index constant = 0;

  bool is_constant() const { return positions.empty(); }
  Index operator[](std::size_t row) const { return positions.empty() ? constant : positions[row]; }
  bool operator==(const Column&) const = default;
};

using ColumnId = std::uint32_t;

/// The different columns of one group of rows.
class Columns {
 public:
  ///   rows  length of every column
  explicit Columns(std::size_t rows) : rows_(rows) {}

  /// The number of this column, which is that of an equal one added before. Cost: linear in rows.
  ColumnId add(Column column);
  /// Positions in the view's array of the elements scale * column + shift of the view.
  ColumnId through(const Layout& view, ColumnId column, Index scale, Index shift);

  const Column& operator[](ColumnId id) const { return columns_[id]; }
  std::size_t rows() const { return rows_; }

 private:
  std::size_t rows_;
  std::vector<Column> columns_;
  std::unordered_multimap<std::uint64_t, ColumnId> by_hash_;
};

}  // namespace topograd::python
