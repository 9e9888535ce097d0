// Ranges of sums by default and by chunk.
#include "sum_ranges.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {

void SumRanges::follow(const BlockLayout& layout, std::span<const ParameterArray> arrays) {
  all_scalars_ = layout.scalars();
  scalars_.clear();
  blocks_.clear();
  chunks_.clear();
  if (by_chunk_) {
    chunks_ = part_ == nullptr ? chunks_of(arrays) : part_->chunks;
    return;
  }
  for (std::uint64_t first = 0; first < all_scalars_; first += kScalarsPerRange)
    scalars_.push_back(
        {.first = first, .end = std::min<std::uint64_t>(first + kScalarsPerRange, all_scalars_)});
  for (std::uint64_t first = 0; first < layout.blocks(); first += kBlocksPerRange) {
    const std::uint64_t end = std::min<std::uint64_t>(first + kBlocksPerRange, layout.blocks());
    const auto b = static_cast<std::uint32_t>(first), e = static_cast<std::uint32_t>(end);
    blocks_.push_back({.first_block = b,
                       .end_block = e,
                       .first = layout.block(b).first,
                       .end = e < layout.blocks() ? layout.block(e).first : all_scalars_});
  }
}

std::size_t SumRanges::chunk_of_constants() const {
  return part_ == nullptr || part_->first ? 0 : chunks_.size();
}

void SumRanges::complete(std::span<std::vector<double>> columns) const {
  std::vector<double> own;
  own.reserve(columns.size() * chunks_.size());
  for (const std::vector<double>& column : columns)
    own.insert(own.end(), column.begin(), column.end());
  const std::span<const double> all = part_->link->all_chunks(own, columns.size());
  const std::size_t count = all.size() / columns.size();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(c * count);
    columns[c].assign(first, first + static_cast<std::ptrdiff_t>(count));
  }
}

double largest_of(std::span<const double> values) {
  double max = 0;
  for (const double v : values) max = std::isnan(max) || v <= max ? max : v;
  return max;
}

}  // namespace topograd::runtime::cpu
