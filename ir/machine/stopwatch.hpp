// Measures time: seconds since a point, and the median of several runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
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

/// Runs `work` warm_ups times, then `samples` times (at least once); returns the median of the
/// latter in microseconds.
template <class F>
double median_time(int warm_ups, int samples, const F& work) {
  for (int k = 0; k < warm_ups; ++k) work();
  std::vector<double> us;
  for (int k = 0; k < std::max(samples, 1); ++k) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> t = std::chrono::steady_clock::now() - start;
    us.push_back(t.count());
  }
  return median(std::move(us));
}

}  // namespace topograd
