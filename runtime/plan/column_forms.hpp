// Storage of the flexible columns of a batch, found from its rows, and copies of columns.
#pragma once

#include "../../ir/batch/batch.hpp"
#include "../../ir/machine/parallel.hpp"
#include "plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace topograd::runtime {

/// Flexible columns of a topology with these groups: `found` when the process first meets it, and
/// the same from then on, so that changes of numbers, losses and instances between solves need no
/// new kernels. Thread-safe.
FlexibleColumns flexible_since_met(const ir::Topology& topology, std::span<const SlotGroup> groups,
                                   const FlexibleColumns& found);

/// An index column of a layout: stored by row, or base + step * row.
struct IndexForm {
  bool stored = true;
  std::uint32_t base = 0, step = 0;  ///< modulo 2^32
};

/// A data column of a layout: stored by row, or one number (the same bits) in all rows.
struct DataForm {
  bool stored = true;
  double value = 0;
};

/// Forms by column of the layout. Columns that are not flexible are stored.
struct ColumnForms {
  std::vector<IndexForm> index;
  std::vector<DataForm> data;

  std::uint32_t stored_index() const;
  std::uint32_t stored_data() const;
};

/// The number of a data column, if all rows have the same bits.
std::optional<double> shared_number(const ir::Batch& batch, std::uint32_t column);

/// Cost: at most one pass over the columns; a column that varies is known by its first rows.
ColumnForms find_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout);

/// Checks the data again. A column that varies now is stored from here on, even if it becomes
/// constant again, so that one changing column does not move the others each time. Returns true if
/// a column was not stored before.
bool refresh_data_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout,
                        ColumnForms& forms);

/// An index column of a block slot's entries: stored by entry, or base + step * the block's first
/// index.
using EntryForm = IndexForm;

/// Forms of the columns of `entry` in the entries of `own`, by entry column; fixed ones are stored.
std::vector<EntryForm> find_entry_forms(const ir::Batch& batch, const codegen::ColumnLayout& layout,
                                        const EntryColumns& entry, const SlotGroup& own);

/// A block of rows of a column, on the stack.
template <class T>
class ColumnRows {
 public:
  static constexpr std::size_t kRows = ir::Batch::kBlockRows;

  ColumnRows(const ir::Batch& batch, std::uint32_t column, std::size_t first)
      : size_(std::min(kRows, batch.size() - first)) {
    const auto rows = std::span(rows_).first(size_);
    if constexpr (std::is_same_v<T, double>) {
      batch.copy_data_column(column, first, rows);
    } else {
      batch.copy_index_column(column, first, rows);
    }
  }
  const T* begin() const { return rows_.data(); }
  const T* end() const { return rows_.data() + size_; }
  std::size_t size() const { return size_; }
  T operator[](std::size_t k) const { return rows_[k]; }

 private:
  std::size_t size_;
  std::array<T, kRows> rows_;  // the first size_ are set
};
using IndexRows = ColumnRows<std::uint32_t>;
using DataRows = ColumnRows<double>;

/// True if test(row) holds for each block of rows 0, kBlockRows, ... The first block is tested
/// alone, because most tests fail there.
template <class Test>
bool all_blocks(const ir::Batch& batch, Test test) {
  constexpr std::size_t kRows = ir::Batch::kBlockRows;
  if (batch.size() == 0) return true;
  if (!test(std::size_t{0})) return false;
  const std::size_t blocks = (batch.size() + kRows - 1) / kRows;
  std::atomic<bool> holds = true;
  ir::parallel_for(std::size_t{1}, blocks, [&](std::size_t k) {
    if (holds.load(std::memory_order_relaxed) && !test(k * kRows)) holds = false;
  });
  return holds;
}

/// True if column b is column a + offset in every row, modulo 2^32.
inline bool has_offset(const ir::Batch& batch, std::uint32_t a, std::uint32_t b,
                       std::uint32_t offset) {
  return all_blocks(batch, [&](std::size_t row) {
    const IndexRows x(batch, a, row), y(batch, b, row);
    bool same = true;
    for (std::size_t k = 0; k < x.size(); ++k) same &= y[k] - x[k] == offset;
    return same;
  });
}

/// Copies rows [first, first + out.size()) of an index column, for T = std::uint32_t, or of a data
/// column.
template <class T>
void copy_column(const ir::Batch& batch, std::uint32_t column, std::size_t first,
                 std::span<T> out) {
  constexpr std::size_t kRows = ir::Batch::kBlockRows;
  ir::parallel_pieces(out.size(), kRows, [&](std::size_t begin, std::size_t end) {
    const std::span<T> part = out.subspan(begin, end - begin);
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      batch.copy_index_column(column, first + begin, part);
    } else if constexpr (std::is_same_v<T, double>) {
      batch.copy_data_column(column, first + begin, part);
    } else {
      std::array<double, kRows> wide;
      for (std::size_t at = 0; at < part.size(); at += kRows) {
        const std::size_t count = std::min(kRows, part.size() - at);
        batch.copy_data_column(column, first + begin + at, std::span(wide).first(count));
        std::copy_n(wide.begin(), count, part.begin() + at);
      }
    }
  });
}

}  // namespace topograd::runtime
