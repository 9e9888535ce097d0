// The scheduler: chooses the target of each task by rules, then measurements, then guesses.
#pragma once

#include "breaker.hpp"
#include "decision.hpp"
#include "first_guess.hpp"
#include "history.hpp"
#include "kernel_table.hpp"
#include "knowledge.hpp"
#include "load_watch.hpp"
#include "transfer_times.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Thread-safe. Never runs anything itself; the clock is injected.
class Scheduler {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Scheduler(HybridOptions options = {}, Clock clock = steady_clock());

  /// Adds a device and returns its target, from 1 on; at most 63.
  std::size_t add_device(DeviceTarget device);
  void set_available(std::size_t target, bool available);
  /// True if it is available and not a software device without admission.
  bool admits(std::size_t target) const;

  /// Chooses a target. Follow with record() or cancel(): until then the target is loaded with the
  /// task.
  /// Cost: below 1 µs.
  Decision decide(const TaskShape& task);
  /// Chooses one target for a sequence of tasks by the sum of their predictions. The bytes of each
  /// are those that cross the boundary of the sequence. Nothing is reserved: follow() does that
  /// later.
  Decision place(std::span<const TaskShape> tasks);
  /// Sends one task to where it was placed, with the sequence or by the user, for the same reason.
  /// Follow with record() or cancel(), as for decide().
  Decision follow(const TaskShape& task, const Decision& placed);
  /// Records that the task ran at its target.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// Records that it ran elsewhere or not at all.
  void cancel(const Decision& decision);
  /// Records a run without a decision: warm-up, fallback, split.
  void record(const TaskShape& task, std::size_t target, const Outcome& outcome);
  /// Records that the host has read results of queued work, and the time this took in addition to
  /// the kernels'.
  ///
  ///   sent  bytes uploaded since the last reading: their transfer may end while it waits
  void record_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes, double us);

  Prediction predict(const TaskShape& task, std::size_t target) const;
  /// CPU time over that of the best device; 0 until both have run.
  double speed_up(const TaskShape& task) const;
  double success_rate(std::size_t target) const;
  /// Samples of one kernel on one target near one size, without the first.
  std::uint64_t samples(const TaskShape& task, std::size_t target) const;
  /// Number of items below which unmeasured kernels of an operation stay on the CPU.
  ///
  ///   first  TaskShape::first_threshold
  double threshold(std::string_view operation, std::uint64_t first = 0) const;
  /// Number of recorded outcomes that changed learned data.
  std::uint64_t outcomes_learned() const;

  std::vector<TargetState> targets() const;
  Knowledge knowledge() const;
  /// Adds data from elsewhere as priors; measurements made here stay.
  void merge(const Knowledge& knowledge);

  const HybridOptions& options() const { return options_; }
  double now() const { return clock_(); }

 private:
  struct Target {
    Target(DeviceTarget target, const HybridOptions& options)
        : device(std::move(target)), breaker(options) {}

    DeviceTarget device;
    Breaker breaker;
    std::map<int, Breaker> out_of_memory;  // by size class of bytes
    TransferTimes transfers;
    TrainingSet training;
    DriftWatch watch{6, 3};
    LoadWatch load;
    mutable std::optional<std::uint64_t> free_bytes;
    mutable double free_known_at = -1;  // seconds
    std::uint64_t drifts = 0;
    double queued_us = 0;
  };
  bool usable(std::size_t target, bool admit_software = false) const;
  std::optional<Reason> refusal(const TaskShape& task, const KernelTimes* kernel,
                                std::size_t target, double now) const;
  std::optional<std::uint64_t> free_bytes(const Target& target, double now) const;
  /// `sent`: bytes uploaded by earlier tasks since the last reading.
  Prediction predicted(const TaskShape& task, const KernelTimes* kernel, std::size_t target,
                       std::uint64_t sent = 0) const;
  Prediction predicted(std::span<const TaskShape> tasks, std::size_t target) const;
  Decision choose(std::span<const TaskShape> tasks);
  void reserve(Decision& decision);
  /// Finds the device for tasks, or the reason why there is none.
  Reason find_device(std::span<const TaskShape> tasks, Decision& decision) const;
  void weigh(std::span<const TaskShape> tasks, Decision& decision);
  bool explores(const TaskShape& task, const Decision& decision);
  void learn(const TaskShape& task, std::size_t target, const Outcome& outcome);
  void learn_kernel(const TaskShape& task, std::size_t target, double us, bool settled);
  void judge(const TaskShape& task, std::size_t target, const Outcome& outcome);
  void move_threshold(const TaskShape& task, const KernelTimes& kernel, std::size_t device);
  void release(const Decision& decision);
  double threshold_of(std::string_view operation, std::uint64_t first) const;

  const HybridOptions options_;
  const Clock clock_;
  mutable std::mutex mutex_;
  std::vector<Target> targets_;
  KernelTable kernels_;
  std::map<std::string, double, std::less<>> thresholds_;
  std::uint64_t outcomes_learned_ = 0;
  std::uint64_t since_exploring_ = 0;
  double total_us_ = 0, explored_us_ = 0;
};

/// Describes a decision and its terms in some lines.
///
///   device  name of the device that was considered
std::string explain(const Decision& decision, std::string_view device = "device");

}  // namespace topograd::runtime::hybrid
