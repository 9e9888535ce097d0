// Internal: items in buckets by ranges of their keys, so that later passes stay in a cache.
#pragma once

#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime {

/// A value with its key.
struct Keyed {
  std::uint32_t key = 0, value = 0;
};

/// Items (Keyed, or derived from it) in buckets of neighbouring keys, in their original order.
///
/// Counting sorts write all over the memory; those of a bucket write within about 1 / 128 of it.
/// Buckets have about equally many items, unless few keys have most of them, as cameras have beside
/// points.
template <class Item = Keyed>
class Partition {
 public:
  /// `emit(first, count, sink)` calls sink(Item) for each item of sources first .. first + count -
  /// 1, in order. It is called twice for each piece of 0 .. sources, on all threads. Keys are <
  /// keys.
  template <class Emit>
  Partition(std::size_t sources, std::uint32_t keys, Emit emit) : keys_(keys) {
    const auto width = static_cast<std::uint32_t>(std::bit_width(keys));
    const std::uint32_t shift = width > kCellBits ? width - kCellBits : 0;
    const std::size_t cells = (std::size_t{keys} >> shift) + 1;
    const std::size_t pieces = std::clamp<std::size_t>(sources / kLeastPiece, 1, kMostPieces);
    const auto each_piece = [&](auto work) {
      ir::parallel_for(std::size_t{0}, pieces, [&](std::size_t p) {
        const std::size_t first = sources * p / pieces;
        work(p, first, sources * (p + 1) / pieces - first);
      });
    };
    std::vector<std::uint32_t> counts(pieces * cells, 0);
    each_piece([&](std::size_t p, std::size_t first, std::size_t count) {
      std::uint32_t* const of_cell = counts.data() + p * cells;
      emit(first, count, [&](const Item& item) { ++of_cell[item.key >> shift]; });
    });
    const std::vector<std::uint32_t> bucket_of = cut_into_buckets(counts, cells, shift);
    const std::size_t buckets = first_key_.size();
    std::vector<std::size_t> next(pieces * buckets, 0);
    for (std::size_t p = 0; p < pieces; ++p) {
      for (std::size_t c = 0; c < cells; ++c)
        next[p * buckets + bucket_of[c]] += counts[p * cells + c];
    }
    std::size_t sum = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      start_.push_back(sum);
      for (std::size_t p = 0; p < pieces; ++p) sum += std::exchange(next[p * buckets + b], sum);
    }
    start_.push_back(sum);
    items_.resize(sum);
    each_piece([&](std::size_t p, std::size_t first, std::size_t count) {
      std::size_t* const next_item = next.data() + p * buckets;
      emit(first, count,
           [&](const Item& item) { items_[next_item[bucket_of[item.key >> shift]]++] = item; });
    });
  }

  /// Calls work(items, index of the first among all items, first key, beyond the last key) for each
  /// bucket, on all threads.
  template <class Work>
  void each_bucket(Work work) const {
    ir::parallel_for(std::size_t{0}, first_key_.size(), [&](std::size_t b) {
      const std::uint32_t first = first_key_[b];
      const std::uint32_t beyond = b + 1 < first_key_.size() ? first_key_[b + 1] : keys_;
      const std::span<const Item> all(items_);
      if (first < beyond) {
        work(all.subspan(start_[b], start_[b + 1] - start_[b]), start_[b], first, beyond);
      }
    });
  }

 private:
  static constexpr std::uint32_t kCellBits = 15;
  static constexpr std::size_t kBuckets = 128;
  static constexpr std::size_t kLeastPiece = std::size_t{1} << 15, kMostPieces = 64;

  /// Makes buckets of neighbouring cells of keys. Returns the bucket of each cell.
  std::vector<std::uint32_t> cut_into_buckets(std::span<const std::uint32_t> counts,
                                              std::size_t cells, std::uint32_t shift) {
    std::vector<std::size_t> items(cells, 0);
    for (std::size_t piece = 0; piece < counts.size(); piece += cells) {
      for (std::size_t c = 0; c < cells; ++c) items[c] += counts[piece + c];
    }
    const std::size_t all = std::accumulate(items.begin(), items.end(), std::size_t{0});
    const std::size_t enough = all / kBuckets + 1;
    std::vector<std::uint32_t> bucket_of(cells);
    std::size_t in_bucket = 0;
    for (std::size_t c = 0; c < cells; ++c) {
      if (c == 0 || in_bucket + items[c] > enough) {
        first_key_.push_back(static_cast<std::uint32_t>(c << shift));
        in_bucket = 0;
      }
      in_bucket += items[c];
      bucket_of[c] = static_cast<std::uint32_t>(first_key_.size() - 1);
    }
    return bucket_of;
  }

  std::uint32_t keys_ = 0;
  std::vector<std::uint32_t> first_key_;  ///< by bucket
  std::vector<std::size_t> start_;        ///< by bucket, and the end
  ir::UnsetPagedVector<Item> items_;
};

}  // namespace topograd::runtime
