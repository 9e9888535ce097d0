// Internal: times of one piece of work on both backends, and the check of arrays and tensors.
#pragma once

#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/median.hpp"
#include "../../../ops/backend/device.hpp"
#include "../../../solver/interrupts.hpp"
#include "routing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace topograd::check {

/// A backend counts as right if it takes at most this many times the time of the other.
inline constexpr double kRightWithin = 1.1;
/// Number of calls that a trace lets the executor decide for each pair of measured runs.
inline constexpr int kDecidedForMeasured = 2;
inline constexpr int kLeastDecisions = 64;
/// Least number of measured runs of each piece of work on each backend.
inline constexpr std::size_t kLeastRuns = 5;

/// Gives the numbers below `count` in random order, again and again.
class Rounds {
 public:
  Rounds(std::size_t count, std::mt19937_64& random)
      : order_(count), next_(count), random_(random) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  /// Requires count > 0.
  std::size_t next() {
    if (next_ == order_.size()) {
      std::ranges::shuffle(order_, random_);
      next_ = 0;
    }
    ended_ += next_ + 1 == order_.size() ? 1 : 0;
    return order_[next_++];
  }
  /// Number of rounds that have ended.
  std::size_t ended() const { return ended_; }

 private:
  std::vector<std::size_t> order_;
  std::size_t next_, ended_ = 0;
  std::mt19937_64& random_;
};

/// Calls decide() kDecidedForMeasured times, then measure(k) for one of `count` pieces of work, and
/// so on, for these seconds and until there are kLeastDecisions and each piece was measured
/// kLeastRuns times. A device answers faster the more often it is used, so only times from between
/// the decisions show what these would have cost.
template <class Decide, class Measure>
void alternate(double seconds, std::size_t count, std::mt19937_64& random, const Decide& decide,
               const Measure& measure) {
  const auto begin = std::chrono::steady_clock::now();
  Rounds rounds(count, random);
  int decisions = 0;
  const auto more = [&] {
    return rounds.ended() < kLeastRuns || decisions < kLeastDecisions ||
           seconds_since(begin) < seconds;
  };
  while (more() && !Interrupts::came()) {
    for (int k = 0; k < kDecidedForMeasured; ++k, ++decisions) decide();
    measure(rounds.next());
  }
}

/// Times of runs that were forced to each backend, µs.
struct Sides {
  std::vector<double> cpu, device;
};

/// Medians of both backends. If they differ by at most twice the standard error of their
/// difference, the faster backend is unknown: either choice is right and costs nothing.
struct Truth {
  double cpu_us = 0, device_us = 0;
  double noise = 0;  ///< standard error of log(cpu_us / device_us)

  explicit Truth(const Sides& sides)
      : cpu_us(median(sides.cpu)),
        device_us(median(sides.device)),
        noise(std::min(std::log(kMostNoise),
                       2 * std::hypot(error(sides.cpu), error(sides.device)))) {}

  double best_us() const { return std::min(cpu_us, device_us); }
  /// Extra time of a backend compared with the faster one; 0 if it is within the noise.
  double over_us(bool on_cpu) const {
    return log_ratio(on_cpu) <= noise ? 0 : (on_cpu ? cpu_us : device_us) - best_us();
  }
  bool right(bool on_cpu) const { return log_ratio(on_cpu) <= std::log(kRightWithin) + noise; }

 private:
  static constexpr double kMostNoise = 1.5;

  double log_ratio(bool on_cpu) const {
    return best_us() > 0 ? std::log((on_cpu ? cpu_us : device_us) / best_us()) : 0;
  }
  /// Standard error of the logarithm of the median, from the median absolute deviation.
  static double error(const std::vector<double>& us) {
    if (us.size() < 2) return 0;
    std::vector<double> off;
    const double middle = std::log(median(us));
    for (const double one : us) off.push_back(std::abs(std::log(one) - middle));
    return 1.2533 * 1.4826 * median(std::move(off)) / std::sqrt(static_cast<double>(us.size()));
  }
};

/// Measures pieces of programs on both backends, from operands on the host to results that the host
/// reads; trains the process's executor on some sizes, then lets it decide over a random trace of
/// all sizes. Fills in operations, operations_right_share and operations_over_oracle.
///
/// Must be called before any other use of the process's executor, with its options set in the
/// environment.
void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report);

}  // namespace topograd::check
