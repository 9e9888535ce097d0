// Rows of a batch: reading, writing, versions.
#include "batch.hpp"

#include "resident_columns.hpp"

#include <algorithm>
#include <utility>

namespace topograd::ir {
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
  const RowBlocks::Block& block = blocks_.of(size_);
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
    const RowBlocks::Block& block = blocks_.of(size_);
    const std::size_t at = size_ % kBlockRows;
    const std::size_t n = std::min(end - size_, block.rows - at);
    added.push_back({size_, n, block.stride, block.index + at, block.data + at, block.row + at});
    size_ += n;
  }
  ++structure_version_;
  return added;
}

std::uint32_t Batch::index(std::size_t row, std::uint32_t column) const {
  const RowBlocks::Block& block = blocks_.of(row);
  return block.index[column * block.stride + row % kBlockRows];
}

double Batch::data(std::size_t row, std::uint32_t column) const {
  if (resident(column)) resident_->copy_to(blocks_, size_);
  const RowBlocks::Block& block = blocks_.of(row);
  return block.data[column * block.stride + row % kBlockRows];
}

std::uint64_t Batch::residual_row(std::size_t row) const {
  return blocks_.of(row).row[row % kBlockRows];
}

void Batch::set_index(std::size_t row, std::uint32_t column, std::uint32_t value) {
  const RowBlocks::Block& block = blocks_.of(row);
  block.index[column * block.stride + row % kBlockRows] = value;
  ++structure_version_;
}

void Batch::set_data(std::size_t row, std::uint32_t column, double value) {
  if (resident(column)) bring_back();
  const RowBlocks::Block& block = blocks_.of(row);
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

}  // namespace topograd::ir
