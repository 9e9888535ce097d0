// Disjoint ranges of the caller's memory.
#pragma once

#include <cstddef>
#include <map>

namespace topograd::detail {

/// Ranges of parameters, which must not overlap: arrays that share memory would change each other.
///
/// Cost: logarithmic in the number of ranges; constant for a range after all others.
class MemoryRanges {
 public:
  /// Adds `count` > 0 numbers that begin at `values` and returns nullptr. If they overlap a range,
  /// adds nothing and returns the beginning of that range.
  const double* add(const double* values, std::size_t count);
  /// Removes the range that begins at `values`.
  void remove(const double* values) { ends_.erase(values); }

 private:
  std::map<const double*, const double*> ends_;  ///< end of each range, by its beginning
};

}  // namespace topograd::detail
