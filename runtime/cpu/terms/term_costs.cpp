// Ranges of sums by default and by chunk, and costs by tile, by chunk and by instance.
#include "term_costs.hpp"

#include <algorithm>
#include <array>

#include "../../../ir/error.hpp"

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

template <class T>
double TermCosts<T>::of_tile(const Worker<T>& worker, std::size_t output, std::size_t n) const {
  if (term_.energy) {
    std::array<double, kTile> values;
    std::copy_n(worker.output(output), n, values.data());
    return pairwise_sum(std::span(values).first(n));
  }
  if (term_.loss != nullptr) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double{worker.output(output)[i]};
    return 2 * sum;
  }
  TileSquares squares;
  for (std::size_t k = 0; k < rows(); ++k) squares.add(worker.output(output + k), 1.0, n);
  return squares.sum();
}

template <class T>
void TermCosts<T>::of_instances(const Worker<T>& worker, std::size_t output,
                                std::span<double> out) const {
  if (term_.energy || term_.loss != nullptr) {
    const double factor = term_.energy ? 1 : 2;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = factor * double{worker.output(output)[i]};
    return;
  }
  std::ranges::fill(out, 0.0);
  for (std::size_t k = 0; k < rows(); ++k) {
    const T* const row = worker.output(output + k);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += double{row[i]} * double{row[i]};
  }
}

template <class T>
std::vector<double> TermCosts<T>::make(const CostSum& cost) const {
  const std::size_t padded = whole_tiles(index_.instances);
  return std::vector<double>(cost.by_chunk() ? padded : padded / kTile);
}

template <class T>
void TermCosts<T>::write(const Worker<T>& worker, std::size_t output, std::size_t first,
                         std::size_t n, const CostSum& cost, std::vector<double>& costs) const {
  if (cost.by_chunk()) return of_instances(worker, output, std::span(costs).subspan(first, n));
  costs[first / kTile] = of_tile(worker, output, n);
}

template <class T>
void TermCosts<T>::add(Pool& pool, std::span<const double> costs, const BlockLayout& layout,
                       CostSum& cost) {
  if (!cost.by_chunk()) return cost.add_tiles(term_.energy, costs);
  if (!by_chunk_) by_chunk_.emplace(index_, layout, cost.ranges());
  cost.add_instances(pool, term_.energy, costs, *by_chunk_);
}

template class TermCosts<float>;
template class TermCosts<double>;

InstancesByChunk::InstancesByChunk(const TermIndex& index, const BlockLayout& layout,
                                   const SumRanges& ranges) {
  const std::size_t chunks = ranges.of_blocks().size();
  const auto chunk_of = [&](std::size_t i) {
    if (index.slots.empty()) return ranges.chunk_of_constants();
    const SlotSource& source = index.slots[0];
    const std::uint32_t scalar = index.block_slots[source.block_slot].base[i] + source.offset;
    return ranges.chunk_of(layout.locate(scalar).block);
  };
  std::vector<std::uint32_t> next(chunks + 2);
  for (std::size_t i = 0; i < index.instances; ++i) ++next[chunk_of(i) + 1];
  for (std::size_t k = 1; k < next.size(); ++k) next[k] += next[k - 1];
  starts.assign(next.begin(), next.end() - 1);
  instances.resize(starts.back());
  for (std::size_t i = 0; i < index.instances; ++i) {
    const std::size_t chunk = chunk_of(i);
    if (chunk < chunks) instances[next[chunk]++] = static_cast<std::uint32_t>(i);
  }
}

CostSum::CostSum(const SumRanges& ranges) : ranges_(ranges) {
  if (!by_chunk()) return;
  for (std::vector<double>& column : by_chunk_) column.resize(ranges.of_blocks().size());
}

void CostSum::add_tiles(bool energy, std::span<const double> tiles) {
  (energy ? whole_.energies : whole_.squares) += pairwise_sum(tiles);
}

namespace {

/// Long lists are summed in segments, so that many residuals of one block keep their accuracy.
constexpr std::size_t kSegment = 256;

double sum_in_segments(std::span<const double> numbers, std::span<const std::uint32_t> entries) {
  const auto sum_of = [&](std::span<const std::uint32_t> segment) {
    double sum = 0;
    for (const std::uint32_t e : segment) sum += numbers[e];
    return sum;
  };
  if (entries.size() <= kSegment) return sum_of(entries);
  std::vector<double> segments;
  for (std::size_t first = 0; first < entries.size(); first += kSegment)
    segments.push_back(sum_of(entries.subspan(first, std::min(kSegment, entries.size() - first))));
  return pairwise_sum(segments);
}

}  // namespace

void CostSum::add_instances(Pool& pool, bool energy, std::span<const double> numbers,
                            const InstancesByChunk& order) {
  constexpr std::size_t kChunksPerRange = 16;
  std::vector<double>& sums = by_chunk_[energy ? 1 : 0];
  const std::span<const std::uint32_t> entries = order.instances;
  pool.for_ranges(sums.size(), kChunksPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const std::size_t first = order.starts[k], count = order.starts[k + 1] - first;
      sums[k] += sum_in_segments(numbers, entries.subspan(first, count));
    }
  });
}

CostSum::Totals CostSum::totals() {
  if (!by_chunk()) return whole_;
  SumRanges::Columns<2> all = by_chunk_;
  ranges_.complete(all);
  return {pairwise_sum(all[0]), pairwise_sum(all[1])};
}

}  // namespace topograd::runtime::cpu
