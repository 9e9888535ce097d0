// Elapsed time, for reports.
#pragma once

#include <chrono>

namespace topograd {

/// Seconds since a point of the monotonic clock.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace topograd
