// Median wall time of a piece of work.
#pragma once

#include "../../ir/machine/stopwatch.hpp"
#include "../engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace topograd::runtime::cpu {

/// Runs `work` warm_ups times, then `samples` times (at least once); returns the median of the
/// latter.
template <class F>
Timing median_time(int warm_ups, int samples, const F& work) {
  for (int k = 0; k < warm_ups; ++k) work();
  std::vector<double> us;
  for (int k = 0; k < std::max(samples, 1); ++k) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> t = std::chrono::steady_clock::now() - start;
    us.push_back(t.count());
  }
  const double middle = median(std::move(us));
  return {.device_us = middle, .wall_us = middle};
}

}  // namespace topograd::runtime::cpu
