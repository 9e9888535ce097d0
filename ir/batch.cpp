// Column storage in blocks of rows.
#include <topograd/ir/batch.hpp>

#include <algorithm>

namespace topograd::ir {
namespace {

constexpr std::size_t kFirstRows = 8;
constexpr std::size_t kGrowth = 4;

template <class T>
void copy_columns(const T* from, std::size_t from_rows, T* to, std::size_t to_rows,
                  std::uint32_t columns) {
  for (std::uint32_t k = 0; k < columns; ++k) {
    std::copy_n(from + k * from_rows, from_rows, to + k * to_rows);
  }
}

// `block_of(k)` is where block k's column begins.
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
    : parameters_(parameters), uniforms_(uniforms), data_(data) {}

Batch::Block Batch::make_block(std::size_t rows) const {
  return {rows, std::make_unique_for_overwrite<std::uint32_t[]>(index_columns() * rows),
          std::make_unique_for_overwrite<double[]>(data_ * rows),
          std::make_unique_for_overwrite<std::uint64_t[]>(rows)};
}

// For one row at least, and in the first block, which moves as it grows, for all that fit there.
void Batch::make_room(std::size_t rows) {
  if (blocks_.empty()) {
    blocks_.push_back(make_block(std::clamp(rows, kFirstRows, kBlockRows)));
  } else if (size_ < kBlockRows && blocks_[0].rows < std::min(kBlockRows, size_ + rows)) {
    const Block& old = blocks_[0];
    Block larger = make_block(std::min(kBlockRows, std::max(kGrowth * old.rows, size_ + rows)));
    copy_columns(old.index.get(), old.rows, larger.index.get(), larger.rows, index_columns());
    copy_columns(old.data.get(), old.rows, larger.data.get(), larger.rows, data_);
    copy_columns(old.row.get(), old.rows, larger.row.get(), larger.rows, 1);
    blocks_[0] = std::move(larger);
  } else if (size_ == blocks_.size() * kBlockRows) {
    blocks_.push_back(make_block(kBlockRows));
  }
}

void Batch::append(std::span<const std::uint32_t> indices, std::span<const double> data,
                   std::uint64_t row) {
  make_room(1);
  Block& block = blocks_[size_ / kBlockRows];
  const std::size_t at = size_ % kBlockRows;
  for (std::size_t k = 0; k < indices.size(); ++k) block.index[k * block.rows + at] = indices[k];
  for (std::size_t k = 0; k < data.size(); ++k) block.data[k * block.rows + at] = data[k];
  block.row[at] = row;
  ++size_;
  ++structure_version_;
}

std::vector<Batch::NewRows> Batch::append_rows(std::size_t count) {
  std::vector<NewRows> added;
  for (const std::size_t end = size_ + count; size_ < end;) {
    make_room(end - size_);
    Block& block = blocks_[size_ / kBlockRows];
    const std::size_t at = size_ % kBlockRows;
    const std::size_t n = std::min(end - size_, block.rows - at);
    added.push_back({size_, n, block.rows, block.index.get() + at, block.data.get() + at,
                     block.row.get() + at});
    size_ += n;
  }
  ++structure_version_;
  return added;
}

std::uint32_t Batch::index(std::size_t row, std::uint32_t column) const {
  const Block& block = blocks_[row / kBlockRows];
  return block.index[column * block.rows + row % kBlockRows];
}

double Batch::data(std::size_t row, std::uint32_t column) const {
  const Block& block = blocks_[row / kBlockRows];
  return block.data[column * block.rows + row % kBlockRows];
}

std::uint64_t Batch::residual_row(std::size_t row) const {
  return blocks_[row / kBlockRows].row[row % kBlockRows];
}

void Batch::set_index(std::size_t row, std::uint32_t column, std::uint32_t value) {
  Block& block = blocks_[row / kBlockRows];
  block.index[column * block.rows + row % kBlockRows] = value;
  ++structure_version_;
}

void Batch::set_data(std::size_t row, std::uint32_t column, double value) {
  Block& block = blocks_[row / kBlockRows];
  block.data[column * block.rows + row % kBlockRows] = value;
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
  copy_column([&](std::size_t k) { return blocks_[k].index.get() + column * blocks_[k].rows; },
              first, out);
}

void Batch::copy_data_column(std::uint32_t column, std::size_t first, std::span<double> out) const {
  copy_column([&](std::size_t k) { return blocks_[k].data.get() + column * blocks_[k].rows; },
              first, out);
}

std::size_t Batch::bytes() const {
  std::size_t rows = 0;
  for (const Block& block : blocks_) rows += block.rows;
  return rows *
         (index_columns() * sizeof(std::uint32_t) + data_ * sizeof(double) + sizeof(std::uint64_t));
}

}  // namespace topograd::ir
