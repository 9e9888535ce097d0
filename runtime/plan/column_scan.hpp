// Scans of batch columns, block by block on all threads.
#pragma once

#include "../../ir/batch/batch.hpp"
#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace topograd::runtime {

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

}  // namespace topograd::runtime
