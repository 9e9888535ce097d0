// Column storage in blocks of rows.
#include "batch.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace topograd::ir {
namespace {

constexpr std::size_t kFirstRows = 8;
constexpr std::size_t kGrowth = 4;

/// Batches of at least this many bytes use large pages; at most one of these is partly empty.
constexpr std::size_t kManyBytes = std::size_t{1} << 24;
/// Rows of padding: columns of a power of two rows would all map to the same cache sets.
constexpr std::size_t kStagger = 16;

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

/// Device-resident columns: their location, and a flag for those that were copied to the host.
struct Batch::Resident {
  std::vector<ResidentColumn> columns;
  std::vector<bool> here;
  std::uint64_t changes = 0;  // changes of columns that were already device-resident
  std::atomic<bool> all_here = false;
  std::mutex mutex;  // serialises bring()
};

Batch::Batch(std::uint32_t parameters, std::uint32_t uniforms, std::uint32_t data)
    : parameters_(parameters), uniforms_(uniforms), data_(data) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

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

// Makes room for one row or more: all `rows` if they fit in the first block, which moves as it
// grows.
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
  bring_back();
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
  bring_back();
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
  if (resident(column)) bring();
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
  if (resident(column)) bring_back();
  Block& block = blocks_[row / kBlockRows];
  block.data[column * block.stride + row % kBlockRows] = value;
  ++data_version_;
}

void Batch::set_residual_row(std::size_t row, std::uint64_t value) {
  blocks_[row / kBlockRows].row[row % kBlockRows] = value;
  ++structure_version_;
}

std::size_t Batch::remove(std::size_t row) {
  bring_back();
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
  if (resident(column)) bring();
  copy_column([&](std::size_t k) { return blocks_[k].data + column * blocks_[k].stride; }, first,
              out);
}

void Batch::set_resident(std::uint32_t column, ResidentColumn from) {
  if (!resident_) {
    resident_ = std::make_unique<Resident>();
    resident_->columns.resize(data_);
    resident_->here.assign(data_, true);
  }
  if (resident(column)) ++resident_->changes;
  resident_->columns[column] = std::move(from);
  resident_->here[column] = false;
  resident_->all_here = false;
  ++data_version_;
}

const ResidentColumn* Batch::resident(std::uint32_t column) const {
  return resident_ && resident_->columns[column].numbers ? &resident_->columns[column] : nullptr;
}

std::uint64_t Batch::own_data_version() const {
  return data_version_ - (resident_ ? resident_->changes : 0);
}

void Batch::forget_resident(std::uint32_t column) {
  if (!resident(column)) return;
  resident_->columns[column] = {};
  resident_->here[column] = true;
  ++data_version_;
  const auto lies_here = [](const ResidentColumn& c) { return c.numbers == nullptr; };
  if (std::ranges::all_of(resident_->columns, lies_here)) resident_ = nullptr;
}

/// Copies device-resident columns to the host. The blocks count as unchanged, so this is const.
void Batch::bring() const {
  if (resident_->all_here.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(resident_->mutex);
  for (std::uint32_t c = 0; c < data_; ++c) {
    if (resident_->here[c]) continue;
    const ResidentColumn& from = resident_->columns[c];
    const std::vector<double> numbers = from.numbers->read();
    for (std::size_t row = 0; row < size_; ++row) {
      const Block& block = blocks_[row / kBlockRows];
      block.data[c * block.stride + row % kBlockRows] = numbers[(*from.places)[row]];
    }
    resident_->here[c] = true;
  }
  resident_->all_here.store(true, std::memory_order_release);
}

void Batch::bring_back() {
  if (!resident_) return;
  bring();
  resident_ = nullptr;
}

std::size_t Batch::bytes() const {
  std::size_t held = 0;
  for (const Block& block : blocks_) held += block.owned ? bytes_of(block.stride) : 0;
  for (const Pages& pages : pages_) held += pages.size();
  for (std::uint32_t c = 0; c < data_; ++c)
    held += resident(c) ? resident(c)->places->capacity() * sizeof(std::uint32_t) : 0;
  return held;
}

}  // namespace topograd::ir
