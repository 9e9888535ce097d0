// Blocks of rows, alone or in large pages.
#include "row_storage.hpp"

#include <algorithm>
#include <utility>

namespace topograd::ir {
namespace {

constexpr std::size_t kFirstRows = 8;
constexpr std::size_t kGrowth = 4;

/// Batches of at least this many bytes use large pages; at most one of these is partly empty.
constexpr std::size_t kManyBytes = std::size_t{1} << 24;
/// Rows of padding: columns of a power of two rows would all map to the same cache sets.
constexpr std::size_t kStagger = 16;

}  // namespace

std::size_t RowStorage::bytes_of(std::size_t stride) const {
  return stride * (sizeof(std::uint64_t) + data_columns_ * sizeof(double) +
                   index_columns_ * sizeof(std::uint32_t));
}

std::byte* RowStorage::take_from_pages(std::size_t bytes) {
  if (pages_.empty() || used_ + bytes > pages_.back().size()) {
    pages_.emplace_back(std::max(bytes, platform::kLargePage));
    used_ = 0;
  }
  std::byte* const memory = pages_.back().data() + used_;
  used_ += bytes;
  return memory;
}

RowStorage::Block RowStorage::make_block(std::size_t rows) {
  Block block{.rows = rows, .stride = rows + (rows == kRows ? kStagger : 0)};
  const std::size_t bytes = bytes_of(block.stride);
  std::byte* memory = nullptr;
  if (blocks_.size() * bytes >= kManyBytes) {
    memory = take_from_pages(bytes);
  } else {
    block.owned = std::make_unique_for_overwrite<std::byte[]>(bytes);
    memory = block.owned.get();
  }
  block.row = reinterpret_cast<std::uint64_t*>(memory);
  block.data = reinterpret_cast<double*>(block.row + block.stride);
  block.index = reinterpret_cast<std::uint32_t*>(block.data + data_columns_ * block.stride);
  return block;
}

void RowStorage::make_room(std::size_t used, std::size_t rows) {
  if (blocks_.empty()) {
    blocks_.push_back(make_block(std::clamp(rows, kFirstRows, kRows)));
  } else if (used < kRows && blocks_[0].rows < std::min(kRows, used + rows)) {
    const Block& old = blocks_[0];
    Block larger = make_block(std::min(kRows, std::max(kGrowth * old.rows, used + rows)));
    for (std::uint32_t k = 0; k < index_columns_; ++k)
      std::copy_n(old.index + k * old.stride, old.rows, larger.index + k * larger.stride);
    for (std::uint32_t k = 0; k < data_columns_; ++k)
      std::copy_n(old.data + k * old.stride, old.rows, larger.data + k * larger.stride);
    std::copy_n(old.row, old.rows, larger.row);
    blocks_[0] = std::move(larger);
  } else if (used == blocks_.size() * kRows) {
    blocks_.push_back(make_block(kRows));
  }
}

std::size_t RowStorage::bytes() const {
  std::size_t held = 0;
  for (const Block& block : blocks_) held += block.owned ? bytes_of(block.stride) : 0;
  for (const Pages& pages : pages_) held += pages.size();
  return held;
}

}  // namespace topograd::ir
