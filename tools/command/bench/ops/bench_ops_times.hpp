// Timing of operations.
#pragma once

#include "../../../../ops/backend/device.hpp"

#include <chrono>
#include <functional>

namespace topograd::command {

template <class F>
double wall_us(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Times in µs.
struct Times {
  double clock = 0, wall = 0;
};
/// Medians after a warm-up, by the device's clock if it has one, otherwise wall time. No sample
/// begins after 5 s, or 1 s on a software device.
Times time_on(const ops::Device& device, int samples, const std::function<void()>& work);
/// Median wall time of upload, computation and read-back; `make`, which is not timed, makes the
/// work with its numbers on the host.
double time_with_transfers(int samples, const std::function<std::function<void()>()>& make);

}  // namespace topograd::command
