// Neighbour lists, built bucket by bucket.
#include "neighbours.hpp"

#include "../plan/partition.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

namespace topograd::runtime {
namespace {

/// Each pair of blocks of each instance, in both directions.
Partition<> pairs_by_block(std::span<const TouchedBlocks> terms, std::uint32_t blocks) {
  std::vector<std::size_t> end;
  std::size_t instances = 0;
  for (const TouchedBlocks& t : terms) end.push_back(instances += t.instances());
  return Partition<>(instances, blocks, [&, end](std::size_t first, std::size_t count, auto sink) {
    auto term = static_cast<std::size_t>(std::ranges::upper_bound(end, first) - end.begin());
    for (std::size_t i = first; i < first + count; ++i) {
      while (i >= end[term]) ++term;
      const TouchedBlocks& t = terms[term];
      const auto touched = t.of(i - (end[term] - t.instances()));
      for (std::size_t a = 0; a < touched.size(); ++a) {
        for (std::size_t b = 0; b < touched.size(); ++b) {
          if (a != b) sink(Keyed{touched[a], touched[b]});
        }
      }
    }
  });
}

}  // namespace

Neighbours::Neighbours(std::span<const TouchedBlocks> terms, std::uint32_t blocks)
    : start_(std::size_t{blocks} + 1, 0) {
  const Partition<> pairs = pairs_by_block(terms, blocks);
  std::atomic<bool> hubs = false;
  pairs.each_bucket(
      [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
        for (const Keyed& item : items) ++start_[item.key + 1];
        for (std::uint32_t b = first; b < beyond; ++b) {
          if (start_[b + 1] <= kHub) continue;
          start_[b + 1] = 0;
          hubs = true;
        }
      });
  hubs_ = hubs;
  std::partial_sum(start_.begin(), start_.end(), start_.begin());
  list_.resize(start_.back());
  pairs.each_bucket(
      [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
        std::vector<std::uint32_t> next(start_.begin() + first, start_.begin() + beyond);
        for (const Keyed& item : items) {
          std::uint32_t& to = next[item.key - first];
          if (to < start_[item.key + 1]) list_[to++] = item.value;
        }
      });
}

}  // namespace topograd::runtime
