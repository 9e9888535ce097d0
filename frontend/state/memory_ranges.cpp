// Disjoint ranges of the caller's memory.
#include "memory_ranges.hpp"

#include <functional>
#include <iterator>

namespace topograd::detail {

const double* MemoryRanges::add(const double* values, std::size_t count) {
  const std::less<> before;  // also orders pointers into different arrays
  const double* end = values + count;
  const bool is_last = ends_.empty() || before(std::prev(ends_.end())->first, values);
  const auto after = is_last ? ends_.end() : ends_.upper_bound(values);
  if (after != ends_.end() && before(after->first, end)) return after->first;
  if (after != ends_.begin()) {
    const auto& [first, last] = *std::prev(after);
    if (before(values, last)) return first;
  }
  ends_.emplace_hint(after, values, end);
  return nullptr;
}

}  // namespace topograd::detail
