// A device as the scheduler sees it: its load and memory, and the breaker that keeps tasks off it.
#pragma once

#include "../../backend.hpp"
#include "decision.hpp"
#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// Free bytes now, if known; called at most every 20 ms. Must not call the scheduler.
using FreeBytes = std::function<std::optional<std::uint64_t>()>;

/// A device as the scheduler sees it.
struct DeviceTarget : DeviceFacts {
  FreeBytes free_bytes = {};
};

/// State of one target, for telemetry.
struct TargetState {
  DeviceTarget target;
  BreakerState breaker = BreakerState::closed;
  std::uint64_t breaker_openings = 0;
  double success_rate = 1;
  std::uint64_t outcomes = 0;  ///< number in the rate
  double queued_us = 0;
  std::uint64_t drifts = 0;  ///< of the target as a whole
  double guess_error = 0;    ///< FirstGuess::error_factor()
  double load = 1;           ///< present slow-down
  std::optional<std::uint64_t> free_bytes;
};

/// Admission by availability, circuit breakers and memory. `now` is in seconds. Not thread-safe.
class Target {
 public:
  /// `options` outlives it.
  Target(DeviceTarget device, const HybridOptions& options)
      : options_(options), device_(std::move(device)), breaker_(options) {}

  const DeviceTarget& device() const { return device_; }
  void set_available(bool available) { device_.available = available; }
  /// True if it is available and not a software device without admission.
  bool usable(bool admit_software = false) const;
  /// Returns the reason why the task may not run there now, or nothing.
  ///
  ///   resident   part of its inputs that is there already, bytes
  ///   supported  the target can run its kernel
  std::optional<Reason> refusal(const TaskShape& task, std::uint64_t resident, bool supported,
                                double now) const;

  /// Records that a task starts there: a half-open breaker lets no other one pass.
  void enter(double now) { breaker_.enter(now); }
  /// Records the end of a task that says nothing about the device.
  void leave() { breaker_.leave(); }
  /// Records the end of a task. Returns false if the target will never run its kernel.
  [[nodiscard]] bool record(const TaskShape& task, const Outcome& outcome, double now);

  /// Adds predicted work to the queue, and removes it. The queue is 0 when all was removed.
  void reserve(double us);
  void release(double us);
  double queued_us() const { return queued_us_; }

  double success_rate() const { return breaker_.success_rate(); }
  /// Without what was measured there.
  TargetState state(double now) const;

 private:
  std::optional<std::uint64_t> free_bytes(double now) const;

  const HybridOptions& options_;
  DeviceTarget device_;
  Breaker breaker_;
  std::map<int, Breaker> out_of_memory_;  // by size class of bytes
  mutable std::optional<std::uint64_t> free_bytes_;
  mutable double free_known_at_ = -1;
  double queued_us_ = 0;
  std::size_t reservations_ = 0;  // number of those in queued_us_
};

}  // namespace topograd::runtime::hybrid
