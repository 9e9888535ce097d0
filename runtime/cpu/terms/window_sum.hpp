// Sums by scalar for nearby instances: each range of instances adds to its own windows.
#pragma once

#include "../tiles/pool.hpp"
#include "term_index.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// Sums over the windows of an index. A sweep reads the terms in order and writes nearby, while
/// lists by block (owner_sum.hpp) read them in another order. The ranges depend on the instances
/// alone, so that the sums have the same bits for any number of threads.
class WindowSums {
 public:
  /// `index` outlives it.
  explicit WindowSums(const TermIndex& index)
      : index_(index), windows_(find_windows(index)), sums_(windows_.numbers()) {}

  /// True if the windows are much smaller than the terms; otherwise add() must not be used.
  bool pay() const { return windows_.ranges > 0; }

  /// out += the sums by scalar of the terms of all slots and instances.
  ///
  ///   run(first, n)  evaluates a tile of n instances; returns a function from slots to n terms
  template <class T, class Run>
  void add(Pool& pool, std::size_t scalars, const Run& run, T* out);

  std::uint64_t bytes() const { return sums_.size() * sizeof(double); }

 private:
  static constexpr std::size_t kScalarsPerSum = 4096;

  template <class Run>
  void add_range(std::size_t range, const Run& run);
  template <class T>
  void add_column(const Windows::Window& window, const SlotPlace& place, const T* terms,
                  std::size_t first, std::size_t n);

  const TermIndex& index_;
  Windows windows_;
  std::vector<double> sums_;
};

template <class T>
void WindowSums::add_column(const Windows::Window& window, const SlotPlace& place, const T* terms,
                            std::size_t first, std::size_t n) {
  const std::uint32_t* const base = index_.roles[place.role].base.data() + first;
  double* const sums = sums_.data() + window.at;
  const std::uint32_t shift = place.offset - window.first;  // modulo 2³²
  for (std::size_t i = 0; i < n; ++i) sums[base[i] + shift] += double{terms[i]};
}

template <class Run>
void WindowSums::add_range(std::size_t range, const Run& run) {
  const Windows::Window &first = windows_.at(range, 0),
                        &last = windows_.at(range, windows_.roles - 1);
  std::fill(sums_.data() + first.at, sums_.data() + last.at + last.size, 0.0);
  const std::size_t end = std::min(index_.instances, (range + 1) * windows_.per_range);
  for (std::size_t at = range * windows_.per_range; at < end; at += kTile) {
    const std::size_t n = std::min(kTile, end - at);
    const auto terms = run(at, n);
    for (std::uint32_t slot = 0; slot < index_.slots.size(); ++slot) {
      const SlotPlace& place = index_.slots[slot];
      add_column(windows_.at(range, place.role), place, terms(slot), at, n);
    }
  }
}

template <class T, class Run>
void WindowSums::add(Pool& pool, std::size_t scalars, const Run& run, T* out) {
  pool.for_ranges(windows_.ranges, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t range = begin; range < end; ++range) add_range(range, run);
  });
  pool.for_ranges(scalars, kScalarsPerSum, [&](std::size_t begin, std::size_t end) {
    for (const Windows::Window& window : windows_.windows) {
      const std::size_t from = std::max<std::size_t>(begin, window.first);
      const std::size_t to = std::min<std::size_t>(end, std::size_t{window.first} + window.size);
      for (std::size_t k = from; k < to; ++k)
        out[k] += static_cast<T>(sums_[window.at + (k - window.first)]);
    }
  });
}

}  // namespace topograd::runtime::cpu
