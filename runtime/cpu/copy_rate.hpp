// Median times of work, and the memory copy rate, to which times of the interpreter are compared.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "../../ir/machine/stopwatch.hpp"
#include "../engine/engine.hpp"
#include "tiles/pool.hpp"

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

/// Bytes per second, read and written, of a copy larger than all caches by the pool's threads: the
/// median of a few. Cost: 128 MiB for about a tenth of a second. Throws std::bad_alloc.
double copy_rate(Pool& pool);

/// The same with `threads` of TBB's pool, 0 = all.
double copy_rate(int threads);

}  // namespace topograd::runtime::cpu
