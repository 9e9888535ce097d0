// Equal consecutive shares of a list, for processes that divide it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace topograd {

/// The numbers first .. end - 1.
struct Slice {
  std::uint64_t first = 0, end = 0;

  bool has(std::uint64_t number) const { return number >= first && number < end; }
  /// The numbers that are also in `other`.
  Slice within(Slice other) const {
    const std::uint64_t begin = std::max(first, other.first);
    return {begin, std::max(begin, std::min(end, other.end))};
  }
  std::uint64_t size() const { return end - first; }
};

/// One of `of` shares, in their order.
struct Share {
  std::uint64_t number = 0, of = 1;

  bool is_whole() const { return of == 1; }
  /// Its slice of `count` things. Slices have equal sizes but for one.
  Slice slice(std::uint64_t count) const {
    const auto begin = [&](std::uint64_t share) {
      return share * (count / of) + std::min(share, count % of);
    };
    return {begin(number), begin(number + 1)};
  }
};

}  // namespace topograd
