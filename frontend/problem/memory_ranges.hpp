// Ranges of the caller's memory, none of which overlaps another.
#pragma once

#include <cstddef>
#include <map>

namespace topograd::detail {

/// Where parameters lie: two that share memory would move against each other.
///
/// Cost: logarithmic in the ranges; constant for one that lies behind all others.
class MemoryRanges {
 public:
  /// Adds `count` > 0 numbers from `values` on. Returns nullptr; or, if they share memory with a
  /// range that is there, where that one begins, and adds nothing.
  const double* add(const double* values, std::size_t count);
  /// Takes out the range that begins at `values`.
  void remove(const double* values) { ends_.erase(values); }

 private:
  std::map<const double*, const double*> ends_;  ///< by where a range begins
};

}  // namespace topograd::detail
