// One target of a scheduler: whether it may take a task now, and how much work waits there.
#pragma once

#include "breaker.hpp"
#include "decision.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace topograd::runtime::hybrid {

/// A device as the scheduler sees it.
struct DeviceTarget {
  std::string name;
  bool software = false;           ///< runs on the CPU
  bool available = true;           ///< exists and can be opened
  std::uint64_t memory_bytes = 0;  ///< installed; 0 = not known
  /// Free bytes now, if known; called at most every 20 ms. Must not call the scheduler.
  std::function<std::optional<std::uint64_t>()> free_bytes = {};
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

  /// Adds predicted work to the queue, and removes it.
  void reserve(double us) { queued_us_ += us; }
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
};

}  // namespace topograd::runtime::hybrid
