// Sums over instances by tile and by chunk.
#include "cost_sum.hpp"

#include "../../../ir/error.hpp"

namespace topograd::runtime::cpu {

InstancesByChunk::InstancesByChunk(const TermIndex& index, const BlockLayout& layout,
                                   const SumRanges& ranges) {
  const std::size_t chunks = ranges.of_blocks().size();
  const auto chunk_of = [&](std::size_t i) {
    if (index.slots.empty()) return ranges.chunk_of_constants();
    const SlotPlace& place = index.slots[0];
    const std::uint32_t scalar = index.roles[place.role].base[i] + place.offset;
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

void CostSum::add_instances(Pool& pool, bool energy, std::span<const double> numbers,
                            const InstancesByChunk& order) {
  // Long lists are summed in segments, so that many residuals of one block keep their accuracy.
  constexpr std::size_t kSegment = 256;
  std::vector<double>& sums = by_chunk_[energy ? 1 : 0];
  pool.for_ranges(sums.size(), 1, [&](std::size_t k, std::size_t) {
    std::vector<double> segments;
    for (std::size_t first = order.starts[k]; first < order.starts[k + 1]; first += kSegment) {
      const std::size_t end = std::min<std::size_t>(first + kSegment, order.starts[k + 1]);
      double sum = 0;
      for (std::size_t e = first; e < end; ++e) sum += numbers[order.instances[e]];
      segments.push_back(sum);
    }
    sums[k] += pairwise_sum(segments);
  });
}

CostSum::Totals CostSum::totals() {
  if (!by_chunk()) return whole_;
  SumRanges::Columns<2> all = by_chunk_;
  ranges_.complete(all);
  return {pairwise_sum(all[0]), pairwise_sum(all[1])};
}

}  // namespace topograd::runtime::cpu
