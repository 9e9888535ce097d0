// How operations are timed.
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

/// µs.
struct Times {
  double clock = 0, wall = 0;
};
/// Medians after a warm-up; the device's clock where it has one, else the wall's. No sample begins
/// after 5 s of them, 1 s on a software device.
Times time_on(const ops::Device& device, int samples, const std::function<void()>& work);
/// Median wall time of what uploads, computes and reads back; `make` makes the work with its
/// numbers on the host, untimed.
double time_with_transfers(int samples, const std::function<std::function<void()>()>& make);

}  // namespace topograd::command
