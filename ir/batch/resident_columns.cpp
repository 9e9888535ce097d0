// Columns that are read from a device when the host needs them.
#include "resident_columns.hpp"

#include <algorithm>
#include <utility>

namespace topograd::ir {

void ResidentColumns::set(std::uint32_t column, ResidentColumn from) {
  if (find(column)) ++changes_;
  columns_[column] = std::move(from);
  here_[column] = false;
  all_here_ = false;
}

void ResidentColumns::forget(std::uint32_t column) {
  columns_[column] = {};
  here_[column] = true;
}

bool ResidentColumns::empty() const {
  return std::ranges::all_of(columns_,
                             [](const ResidentColumn& c) { return c.numbers == nullptr; });
}

std::size_t ResidentColumns::bytes() const {
  std::size_t held = 0;
  for (const ResidentColumn& column : columns_)
    held += column.numbers ? column.places->capacity() * sizeof(std::uint32_t) : 0;
  return held;
}

void ResidentColumns::copy_to(const RowBlocks& blocks, std::size_t rows) {
  if (all_here_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t c = 0; c < columns_.size(); ++c) {
    if (here_[c]) continue;
    const ResidentColumn& from = columns_[c];
    const std::vector<double> numbers = from.numbers->read();
    for (std::size_t row = 0; row < rows; ++row) {
      const RowBlocks::Block& block = blocks.of(row);
      block.data[c * block.stride + row % RowBlocks::kRows] = numbers[(*from.places)[row]];
    }
    here_[c] = true;
  }
  all_here_.store(true, std::memory_order_release);
}

}  // namespace topograd::ir
