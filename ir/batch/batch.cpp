// Rows of a batch: reading, writing, versions.
#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "row_storage.hpp"

namespace topograd::ir {

/// Locations of data columns on devices, and which of them were copied to the host.
class ResidentColumns {
 public:
  explicit ResidentColumns(std::size_t data_columns)
      : columns_(data_columns), here_(data_columns, true) {}

  void set(std::uint32_t column, ResidentColumn from);
  /// Null if the column is on the host alone.
  const ResidentColumn* find(std::uint32_t column) const {
    return columns_[column].numbers ? &columns_[column] : nullptr;
  }
  void forget(std::uint32_t column);
  bool empty() const;

  /// How often set() replaced a column that was already device-resident.
  std::uint64_t changes() const { return changes_; }
  /// Bytes on the host: lists of indices.
  std::size_t bytes() const;

  /// Copies what is not on the host yet to these blocks. Any thread, also several at a time.
  void copy_to(const RowStorage& blocks, std::size_t rows);

 private:
  std::vector<ResidentColumn> columns_;
  std::vector<bool> here_;
  std::uint64_t changes_ = 0;
  std::atomic<bool> all_here_ = false;
  std::mutex mutex_;  // serialises copy_to()
};

namespace {

// `block_of(k)` returns the start of the column in block k.
template <class T, class F>
void copy_column(F block_of, std::size_t first, std::span<T> out) {
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t row = first + done;
    const std::size_t in_block = row % Batch::kBlockRows;
    const std::size_t n = std::min(out.size() - done, Batch::kBlockRows - in_block);
    std::copy_n(block_of(row / Batch::kBlockRows) + in_block, n, out.data() + done);
    done += n;
  }
}

}  // namespace

Batch::Batch(std::uint32_t parameters, std::uint32_t uniforms, std::uint32_t data)
    : parameters_(parameters), blocks_(parameters + uniforms, data) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

void Batch::append(std::span<const std::uint32_t> indices, std::span<const double> data,
                   std::uint64_t row) {
  bring_back();
  blocks_.make_room(size_, 1);
  const RowStorage::Block& block = blocks_.of(size_);
  const std::size_t at = size_ % kBlockRows;
  for (std::size_t k = 0; k < indices.size(); ++k) block.index[k * block.stride + at] = indices[k];
  for (std::size_t k = 0; k < data.size(); ++k) block.data[k * block.stride + at] = data[k];
  block.row[at] = row;
  ++size_;
  ++structure_version_;
}

std::vector<Batch::NewRows> Batch::append_rows(std::size_t count) {
  bring_back();
  std::vector<NewRows> added;
  for (const std::size_t end = size_ + count; size_ < end;) {
    blocks_.make_room(size_, end - size_);
    const RowStorage::Block& block = blocks_.of(size_);
    const std::size_t at = size_ % kBlockRows;
    const std::size_t n = std::min(end - size_, block.rows - at);
    added.push_back({size_, n, block.stride, block.index + at, block.data + at, block.row + at});
    size_ += n;
  }
  ++structure_version_;
  return added;
}

std::uint32_t Batch::index(std::size_t row, std::uint32_t column) const {
  const RowStorage::Block& block = blocks_.of(row);
  return block.index[column * block.stride + row % kBlockRows];
}

double Batch::data(std::size_t row, std::uint32_t column) const {
  if (resident(column)) resident_->copy_to(blocks_, size_);
  const RowStorage::Block& block = blocks_.of(row);
  return block.data[column * block.stride + row % kBlockRows];
}

std::uint64_t Batch::residual_row(std::size_t row) const {
  return blocks_.of(row).row[row % kBlockRows];
}

void Batch::set_index(std::size_t row, std::uint32_t column, std::uint32_t value) {
  const RowStorage::Block& block = blocks_.of(row);
  block.index[column * block.stride + row % kBlockRows] = value;
  ++structure_version_;
}

void Batch::set_data(std::size_t row, std::uint32_t column, double value) {
  if (resident(column)) bring_back();
  const RowStorage::Block& block = blocks_.of(row);
  block.data[column * block.stride + row % kBlockRows] = value;
  ++data_version_;
}

void Batch::set_residual_row(std::size_t row, std::uint64_t value) {
  blocks_.of(row).row[row % kBlockRows] = value;
  ++structure_version_;
}

std::size_t Batch::remove(std::size_t row) {
  bring_back();
  const std::size_t last = size_ - 1;
  if (row != last) {
    for (std::uint32_t k = 0; k < index_columns(); ++k) set_index(row, k, index(last, k));
    for (std::uint32_t k = 0; k < data_columns(); ++k) set_data(row, k, data(last, k));
    set_residual_row(row, residual_row(last));
  }
  --size_;
  ++structure_version_;
  ++data_version_;
  return last;
}

void Batch::copy_index_column(std::uint32_t column, std::size_t first,
                              std::span<std::uint32_t> out) const {
  copy_column([&](std::size_t k) { return blocks_[k].index + column * blocks_[k].stride; }, first,
              out);
}

void Batch::copy_data_column(std::uint32_t column, std::size_t first, std::span<double> out) const {
  if (resident(column)) resident_->copy_to(blocks_, size_);
  copy_column([&](std::size_t k) { return blocks_[k].data + column * blocks_[k].stride; }, first,
              out);
}

void Batch::set_resident(std::uint32_t column, ResidentColumn from) {
  if (!resident_) resident_ = std::make_unique<ResidentColumns>(data_columns());
  resident_->set(column, std::move(from));
  ++data_version_;
}

const ResidentColumn* Batch::resident(std::uint32_t column) const {
  return resident_ ? resident_->find(column) : nullptr;
}

std::uint64_t Batch::own_data_version() const {
  return data_version_ - (resident_ ? resident_->changes() : 0);
}

void Batch::forget_resident(std::uint32_t column) {
  if (!resident(column)) return;
  resident_->forget(column);
  ++data_version_;
  if (resident_->empty()) resident_ = nullptr;
}

void Batch::bring_back() {
  if (!resident_) return;
  resident_->copy_to(blocks_, size_);
  resident_ = nullptr;
}

std::size_t Batch::bytes() const { return blocks_.bytes() + (resident_ ? resident_->bytes() : 0); }

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
    held += column.numbers ? column.indices->capacity() * sizeof(std::uint32_t) : 0;
  return held;
}

void ResidentColumns::copy_to(const RowStorage& blocks, std::size_t rows) {
  if (all_here_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t c = 0; c < columns_.size(); ++c) {
    if (here_[c]) continue;
    const ResidentColumn& from = columns_[c];
    const std::vector<double> numbers = from.numbers->read();
    for (std::size_t row = 0; row < rows; ++row) {
      const RowStorage::Block& block = blocks.of(row);
      block.data[c * block.stride + row % RowStorage::kRows] = numbers[(*from.indices)[row]];
    }
    here_[c] = true;
  }
  all_here_.store(true, std::memory_order_release);
}

}  // namespace topograd::ir
