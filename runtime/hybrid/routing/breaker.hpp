// The circuit breaker of a device: it stops asking what keeps failing, and asks again later.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace topograd::runtime::hybrid {

enum class BreakerState { closed, open, half_open };
/// "closed", "open" or "half_open".
std::string_view name(BreakerState state);

/// Closed: everything passes. Open: nothing does, until the back-off is over. Half-open: one probe
/// passes; its success closes the breaker, its failure doubles the back-off.
///
/// Opens when the success rate over the last `success_window` outcomes is below `min_success_rate`,
/// from `success_samples` outcomes on; the window is empty when it closes after that. Opens at once
/// by trip(), which counts as a failure in the window, too: a device that is lost again and again
/// ends below the rate. Not safe for several threads.
class Breaker {
 public:
  explicit Breaker(const HybridOptions& options);

  /// At `now` (seconds of one clock).
  BreakerState state(double now) const;
  /// True if a task may go there now. Changes nothing.
  bool admits(double now) const;
  /// A task goes there: takes the probe where half open.
  void enter(double now);
  /// It ended.
  void record(bool success, double now);
  /// It failed for a reason of its own, such as its size: counts, and says nothing about others.
  void record_refusal(double now);
  /// It ended without saying anything about the device.
  void leave() { probing_ = false; }
  /// It failed, and opens at once: the device is lost.
  void trip(double now);

  std::uint64_t samples() const { return outcomes_.size(); }
  /// Successes among the last outcomes; 1 without any.
  double success_rate() const;
  /// Times that it opened.
  std::uint64_t openings() const { return openings_; }
  /// Why it opened last: the rate, rather than a trip.
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
