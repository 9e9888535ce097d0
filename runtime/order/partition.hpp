// Internal: items in buckets by ranges of their keys, so that later passes stay in a cache.
#pragma once

#include "../../ir/batch/pages.hpp"
#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// A value with its key.
struct Keyed {
  std::uint32_t key = 0, value = 0;
};

/// Items (Keyed, or derived from it) in buckets of neighbouring keys, in their original order.
///
/// Counting sorts write all over the memory; those of a bucket write within 1 / 128 of it.
template <class Item = Keyed>
class Partition {
 public:
  /// `emit(first, count, sink)` calls sink(Item) for each item of sources first .. first + count -
  /// 1, in order. It is called twice for each piece of 0 .. sources, on all threads. Keys are <
  /// keys.
  template <class Emit>
  Partition(std::size_t sources, std::uint32_t keys, Emit emit) : keys_(keys) {
    const auto width = static_cast<std::uint32_t>(std::bit_width(keys));
    shift_ = width > kBucketBits ? width - kBucketBits : 0;
    const std::size_t buckets = (std::size_t{keys} >> shift_) + 1;
    const std::size_t pieces = std::clamp<std::size_t>(sources / kLeastPiece, 1, kMostPieces);
    std::vector<std::size_t> next(pieces * buckets, 0);
    const auto each_piece = [&](auto work) {
      ir::parallel_for(std::size_t{0}, pieces, [&](std::size_t p) {
        const std::size_t first = sources * p / pieces;
        work(next.data() + p * buckets, first, sources * (p + 1) / pieces - first);
      });
    };
    each_piece([&](std::size_t* counts, std::size_t first, std::size_t count) {
      emit(first, count, [&](const Item& item) { ++counts[item.key >> shift_]; });
    });
    std::size_t sum = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      start_.push_back(sum);
      for (std::size_t p = 0; p < pieces; ++p) {
        const std::size_t n = next[p * buckets + b];
        next[p * buckets + b] = sum;
        sum += n;
      }
    }
    start_.push_back(sum);
    items_.resize(sum);
    each_piece([&](std::size_t* places, std::size_t first, std::size_t count) {
      emit(first, count, [&](const Item& item) { items_[places[item.key >> shift_]++] = item; });
    });
  }

  /// Calls work(items, place of the first among all items, first key, beyond the last key) for each
  /// bucket, on all threads.
  template <class Work>
  void each_bucket(Work work) const {
    ir::parallel_for(std::size_t{0}, start_.size() - 1, [&](std::size_t b) {
      const auto first = static_cast<std::uint32_t>(b << shift_);
      const auto beyond = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(keys_, std::uint64_t{b + 1} << shift_));
      const std::span<const Item> all(items_);
      if (first < beyond) {
        work(all.subspan(start_[b], start_[b + 1] - start_[b]), start_[b], first, beyond);
      }
    });
  }

 private:
  static constexpr std::uint32_t kBucketBits = 7;
  static constexpr std::size_t kLeastPiece = std::size_t{1} << 15, kMostPieces = 64;

  std::uint32_t keys_ = 0, shift_ = 0;
  std::vector<std::size_t> start_;  ///< by bucket, and the end
  ir::PagedVector<Item> items_;
};

}  // namespace topograd::runtime
