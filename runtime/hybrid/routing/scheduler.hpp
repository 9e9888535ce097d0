// The scheduler: chooses the target of each task by rules, then measurements, then guesses.
#pragma once

#include "decision.hpp"
#include "exploration.hpp"
#include "measurements.hpp"
#include "target.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::hybrid {

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
  /// True if it admits a device, or tasks may admit one.
  bool has_devices() const;

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
  /// Decides again about a task that waits: its decision is cancelled, and the load and the
  /// measurements of this moment count. Nothing is explored. Follow with record() or cancel().
  Decision decide_again(const TaskShape& task, const Decision& before);
  /// True unless a rule keeps the task from this target now.
  bool accepts(const TaskShape& task, std::size_t target) const;

  /// A part of a task that can be divided, and the device for it.
  struct Share {
    std::size_t target = kCpu;
    double share = 1;  ///< of the items
  };
  /// Divides a task among all devices that may take it so that they are expected to end at the same
  /// time. The parts are in the order of devices. There is one part if more would save less than
  /// HybridOptions::speed_up_sure. A device without measurements gets a small part beside others.
  /// Nothing is reserved: follow() does that. A device must be there: call it after decide().
  std::vector<Share> divide(const TaskShape& task);
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
  /// Number of targets, with the CPU.
  std::size_t target_count() const;
  Knowledge knowledge() const;
  /// Adds data from elsewhere as priors; measurements made here stay.
  void merge(const Knowledge& knowledge);

  const HybridOptions& options() const { return options_; }
  double now() const { return clock_(); }

 private:
  void add(DeviceTarget device);
  std::optional<Reason> refusal(const TaskShape& task, std::size_t target, double now) const;
  Prediction predicted(std::span<const TaskShape> tasks, std::size_t target) const;
  Decision choose(std::span<const TaskShape> tasks, bool explores);
  /// Finds the devices that may take tasks (candidates_) and the best of them, or the reason why
  /// there is none.
  Reason find_device(std::span<const TaskShape> tasks, Decision& decision);
  bool below_threshold(std::span<const TaskShape> tasks) const;
  void weigh(std::span<const TaskShape> tasks, Decision& decision);
  /// Sends the task to an idle device that has no measurements, beside one that has some.
  bool try_first(const TaskShape& task, Decision& decision);
  void explore(std::span<const TaskShape> tasks, Decision& decision);
  void reserve(Decision& decision);
  void learn(const TaskShape& task, std::size_t target, const Outcome& outcome);

  const HybridOptions options_;
  const Clock clock_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Target> targets_;
  Measurements measurements_;
  Exploration exploration_;
  std::vector<Candidate> candidates_, others_;  // of the latest choice; they keep their memory
};

/// Describes a decision and its terms in some lines.
///
///   device  name of the device that was considered
std::string explain(const Decision& decision, std::string_view device = "device");

}  // namespace topograd::runtime::hybrid
