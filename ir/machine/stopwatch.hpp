// Elapsed time, and medians of what was measured.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace topograd {

/// Seconds since a point of the monotonic clock.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median; for an even count the larger middle value, 0 for no values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace topograd
