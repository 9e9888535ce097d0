// Columns of positions, one for each row of a group; equal columns are one column.
#pragma once

#include "array_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

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

}  // namespace topograd::python
