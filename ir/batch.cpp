// Column storage in blocks of rows.
#include <topograd/ir/batch.hpp>

#include <algorithm>

namespace topograd::ir {
namespace {

constexpr std::size_t kFirstRows = 8;
constexpr std::size_t kGrowth = 4;

/// Batches of so many bytes get large pages, of which at most one is not full.
constexpr std::size_t kManyBytes = std::size_t{1} << 24;
/// Columns of a power of two rows would all lie in the same sets of a cache.
constexpr std::size_t kStagger = 16;

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

std::size_t Batch::bytes_of(std::size_t stride) const {
  return stride *
         (sizeof(std::uint64_t) + data_ * sizeof(double) + index_columns() * sizeof(std::uint32_t));
}

std::byte* Batch::place_in_pages(std::size_t bytes) {
  if (pages_.empty() || used_ + bytes > pages_.back().size()) {
    pages_.emplace_back(std::max(bytes, platform::kLargePage));
    used_ = 0;
  }
  std::byte* const place = pages_.back().data() + used_;
  used_ += bytes;
  return place;
}

Batch::Block Batch::make_block(std::size_t rows) {
  Block block{.rows = rows, .stride = rows + (rows == kBlockRows ? kStagger : 0)};
  const std::size_t bytes = bytes_of(block.stride);
  std::byte* place = nullptr;
  if (blocks_.size() * bytes >= kManyBytes) {
    place = place_in_pages(bytes);
  } else {
    block.owned = std::make_unique_for_overwrite<std::byte[]>(bytes);
    place = block.owned.get();
  }
  block.row = reinterpret_cast<std::uint64_t*>(place);
  block.data = reinterpret_cast<double*>(block.row + block.stride);
  block.index = reinterpret_cast<std::uint32_t*>(block.data + data_ * block.stride);
  return block;
}

// For one row at least, and in the first block, which moves as it grows, for all that fit there.
void Batch::make_room(std::size_t rows) {
  if (blocks_.empty()) {
    blocks_.push_back(make_block(std::clamp(rows, kFirstRows, kBlockRows)));
  } else if (size_ < kBlockRows && blocks_[0].rows < std::min(kBlockRows, size_ + rows)) {
    const Block& old = blocks_[0];
    Block larger = make_block(std::min(kBlockRows, std::max(kGrowth * old.rows, size_ + rows)));
    for (std::uint32_t k = 0; k < index_columns(); ++k)
      std::copy_n(old.index + k * old.stride, old.rows, larger.index + k * larger.stride);
    for (std::uint32_t k = 0; k < data_; ++k)
      std::copy_n(old.data + k * old.stride, old.rows, larger.data + k * larger.stride);
    std::copy_n(old.row, old.rows, larger.row);
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
  for (std::size_t k = 0; k < indices.size(); ++k) block.index[k * block.stride + at] = indices[k];
  for (std::size_t k = 0; k < data.size(); ++k) block.data[k * block.stride + at] = data[k];
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
    added.push_back({size_, n, block.stride, block.index + at, block.data + at, block.row + at});
    size_ += n;
  }
  ++structure_version_;
  return added;
}

std::uint32_t Batch::index(std::size_t row, std::uint32_t column) const {
  const Block& block = blocks_[row / kBlockRows];
  return block.index[column * block.stride + row % kBlockRows];
}

double Batch::data(std::size_t row, std::uint32_t column) const {
  const Block& block = blocks_[row / kBlockRows];
  return block.data[column * block.stride + row % kBlockRows];
}

std::uint64_t Batch::residual_row(std::size_t row) const {
  return blocks_[row / kBlockRows].row[row % kBlockRows];
}

void Batch::set_index(std::size_t row, std::uint32_t column, std::uint32_t value) {
  Block& block = blocks_[row / kBlockRows];
  block.index[column * block.stride + row % kBlockRows] = value;
  ++structure_version_;
}

void Batch::set_data(std::size_t row, std::uint32_t column, double value) {
  Block& block = blocks_[row / kBlockRows];
  block.data[column * block.stride + row % kBlockRows] = value;
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
  copy_column([&](std::size_t k) { return blocks_[k].index + column * blocks_[k].stride; }, first,
              out);
}

void Batch::copy_data_column(std::uint32_t column, std::size_t first, std::span<double> out) const {
  copy_column([&](std::size_t k) { return blocks_[k].data + column * blocks_[k].stride; }, first,
              out);
}

std::size_t Batch::bytes() const {
  std::size_t held = 0;
  for (const Block& block : blocks_) held += block.owned ? bytes_of(block.stride) : 0;
  for (const Pages& pages : pages_) held += pages.size();
  return held;
}

}  // namespace topograd::ir
