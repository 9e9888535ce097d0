// The circuit breaker of a device: it stops using a device that keeps failing, and retries later.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace topograd::runtime::hybrid {

enum class BreakerState { closed, open, half_open };
TG_ENUM_NAMES(BreakerState)

/// Closed: all tasks pass. Open: none pass until the back-off is over. Half-open: one probe passes;
/// its success closes the breaker, its failure doubles the back-off.
///
/// Opens if the success rate over the last `success_window` outcomes is below `min_success_rate`,
/// from `success_samples` outcomes on; the window is cleared when it closes after that. trip()
/// opens it at once and counts as a failure in the window, so a device that is lost repeatedly ends
/// below the rate. Not thread-safe.
class Breaker {
 public:
  explicit Breaker(const HybridOptions& options);

  /// State at `now` (seconds of one clock).
  BreakerState state(double now) const;
  /// True if a task may run there now. Changes nothing.
  bool admits(double now) const;
  /// Records that a task starts there; takes the probe if half-open.
  void enter(double now);
  /// Records the end of a task.
  void record(bool success, double now);
  /// Records a failure that concerns only this task, such as its size: counts, but decides nothing.
  void record_refusal(double now);
  /// Records the end of a task that says nothing about the device.
  void leave() { probing_ = false; }
  /// Records the loss of the device: opens at once.
  void trip(double now);

  std::uint64_t samples() const { return outcomes_.size(); }
  /// Share of successes among the last outcomes; 1 without any.
  double success_rate() const;
  /// Number of openings.
  std::uint64_t openings() const { return openings_; }
  /// True if the rate opened it last, not a trip.
  bool opened_by_rate() const { return by_rate_; }

 private:
  void open(double now);
  void close();
  void count(bool success);
  bool below_rate() const;

  std::uint64_t window_, needed_;
  double min_rate_, first_back_off_, max_back_off_;
  std::vector<bool> outcomes_;  // a ring once it is full
  std::uint64_t next_ = 0, successes_ = 0;
  bool open_ = false, probing_ = false, by_rate_ = false;
  double until_ = 0, back_off_;
  std::uint64_t openings_ = 0;
};

}  // namespace topograd::runtime::hybrid
