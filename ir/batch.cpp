// Column storage in blocks of rows.
#include <topograd/ir/batch.hpp>

#include <algorithm>

namespace topograd::ir {
namespace {

template <class T>
void copy_column(const T* (*block_of)(const void*, std::size_t), const void* batch,
                 std::uint32_t column, std::size_t first, std::span<T> out) {
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t row = first + done;
    const std::size_t in_block = row % Batch::kBlockRows;
    const std::size_t n = std::min(out.size() - done, Batch::kBlockRows - in_block);
    const T* block = block_of(batch, row / Batch::kBlockRows);
    std::copy_n(block + column * Batch::kBlockRows + in_block, n, out.data() + done);
    done += n;
  }
}

}  // namespace

Batch::Batch(std::uint32_t parameters, std::uint32_t uniforms, std::uint32_t data)
    : parameters_(parameters), uniforms_(uniforms), data_(data) {}

void Batch::append(std::span<const std::uint32_t> indices, std::span<const double> data,
                   std::uint64_t row) {
  const std::size_t at = size_ % kBlockRows;
  if (at == 0 && size_ / kBlockRows == blocks_.size()) {
    blocks_.push_back(
        {std::make_unique_for_overwrite<std::uint32_t[]>(index_columns() * kBlockRows),
         std::make_unique_for_overwrite<double[]>(data_ * kBlockRows),
         std::make_unique_for_overwrite<std::uint64_t[]>(kBlockRows)});
  }
  Block& block = blocks_[size_ / kBlockRows];
  for (std::size_t k = 0; k < indices.size(); ++k) block.index[k * kBlockRows + at] = indices[k];
  for (std::size_t k = 0; k < data.size(); ++k) block.data[k * kBlockRows + at] = data[k];
  block.row[at] = row;
  ++size_;
  ++structure_version_;
}

std::uint32_t Batch::index(std::size_t row, std::uint32_t column) const {
  return blocks_[row / kBlockRows].index[column * kBlockRows + row % kBlockRows];
}

double Batch::data(std::size_t row, std::uint32_t column) const {
  return blocks_[row / kBlockRows].data[column * kBlockRows + row % kBlockRows];
}

std::uint64_t Batch::residual_row(std::size_t row) const {
  return blocks_[row / kBlockRows].row[row % kBlockRows];
}

void Batch::set_index(std::size_t row, std::uint32_t column, std::uint32_t value) {
  blocks_[row / kBlockRows].index[column * kBlockRows + row % kBlockRows] = value;
  ++structure_version_;
}

void Batch::set_data(std::size_t row, std::uint32_t column, double value) {
  blocks_[row / kBlockRows].data[column * kBlockRows + row % kBlockRows] = value;
  ++data_version_;
}

void Batch::set_residual_row(std::size_t row, std::uint64_t value) {
  blocks_[row / kBlockRows].row[row % kBlockRows] = value;
  ++structure_version_;
}

std::size_t Batch::remove(std::size_t row) {
  const std::size_t last = size_ - 1;
  if (row != last) {
    for (std::uint32_t k = 0; k < index_columns(); ++k) set_index(row, k, index(last, k));
    for (std::uint32_t k = 0; k < data_; ++k) set_data(row, k, data(last, k));
    set_residual_row(row, residual_row(last));
  }
  --size_;
  ++structure_version_;
  ++data_version_;
  return last;
}

void Batch::copy_index_column(std::uint32_t column, std::size_t first,
                              std::span<std::uint32_t> out) const {
  copy_column<std::uint32_t>(
      [](const void* b, std::size_t k) -> const std::uint32_t* {
        return static_cast<const Batch*>(b)->blocks_[k].index.get();
      },
      this, column, first, out);
}

void Batch::copy_data_column(std::uint32_t column, std::size_t first, std::span<double> out) const {
  copy_column<double>(
      [](const void* b, std::size_t k) -> const double* {
        return static_cast<const Batch*>(b)->blocks_[k].data.get();
      },
      this, column, first, out);
}

std::size_t Batch::bytes() const {
  return blocks_.size() * kBlockRows *
         (index_columns() * sizeof(std::uint32_t) + data_ * sizeof(double) + sizeof(std::uint64_t));
}

}  // namespace topograd::ir
