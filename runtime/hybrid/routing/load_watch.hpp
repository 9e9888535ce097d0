// Slow-down of a target by other users at this moment.
#pragma once

#include "../../../ir/hash.hpp"
#include "history.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace topograd::runtime::hybrid {

/// The median of the last few log(measured / expected), while they are fresh and from several
/// kernels: a single slow kernel says nothing about the others. Not thread-safe.
class LoadWatch {
 public:
  ///   now  seconds
  void add(double residual, double expected_us, std::uint64_t kernel, double now) {
    ring_[count_++ % kLength] = {residual, expected_us, kernel, now};
    if (count_ < kLength) return;
    std::array<double, kLength> residuals;
    double oldest = now, longest = 0;
    bool several = false;
    for (std::size_t k = 0; k < kLength; ++k) {
      residuals[k] = ring_[k].residual;
      oldest = std::min(oldest, ring_[k].at);
      if (ring_[k].residual > kLeast) longest = std::max(longest, ring_[k].expected_us);
      several |= ring_[k].kernel != ring_[0].kernel;
    }
    const auto middle = residuals.begin() + kLength / 2;
    std::nth_element(residuals.begin(), middle, residuals.end());
    factor_ = several && *middle > kLeast ? std::exp(*middle) : 1;
    most_us_ = kReachOfChange * longest;
    until_ = oldest + kFreshSeconds;
  }
  /// True if it is slower than usual, or was a moment ago.
  bool loaded() const { return factor_ > 1; }
  /// Factor for times, >= 1.
  double factor(double now) const { return now < until_ ? factor_ : 1; }
  /// Time now for `us` µs of usual work.
  double slowed(double us, double now) const {
    return us + (factor(now) - 1) * std::min(us, most_us_);
  }

 private:
  static constexpr std::size_t kLength = 5;
  static constexpr double kFreshSeconds = 2;
  static constexpr double kLeast = 0.25;  // a fourth slower is noise
  struct Entry {
    double residual = 0;
    double expected_us = 0;
    std::uint64_t kernel = 0;
    double at = 0;
  };
  std::array<Entry, kLength> ring_{};
  std::size_t count_ = 0;
  double factor_ = 1, most_us_ = 0, until_ = 0;
};

}  // namespace topograd::runtime::hybrid
