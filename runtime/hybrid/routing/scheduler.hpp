// Chooses the target of each task by rules first, then by what was measured, then by guessing.
#pragma once

#include "breaker.hpp"
#include "decision.hpp"
#include "first_guess.hpp"
#include "history.hpp"
#include "load_watch.hpp"

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

/// A device as the scheduler knows it.
struct DeviceTarget {
  std::string name;
  bool software = false;           ///< the CPU in disguise
  bool available = true;           ///< it is there and can be opened
  std::uint64_t memory_bytes = 0;  ///< installed; 0 = not known
  /// That are free now, if that is known; asked for at most every 20 ms. Does not call the
  /// scheduler.
  std::function<std::optional<std::uint64_t>()> free_bytes = {};
};

/// Training rows that are kept for one target: several times what a regression of some inputs
/// needs.
inline constexpr std::size_t kMaxTrainingRows = 512;

/// What is known, to be saved, carried to other machines and reported. Targets by name.
struct Knowledge {
  struct Kernel {
    Hash128 hash;
    std::string operation;
    std::map<std::string, std::vector<History::Row>> targets;
    std::uint64_t used = 0;  ///< the larger, the later, in this process; 0 = not; is not saved
  };
  std::vector<Kernel> kernels;
  /// "upload", "submit" and "read_back" of each target, and for operations that are queued
  /// "operations_upload" and "operations_read_back"; sizes are bytes.
  std::map<std::string, std::map<std::string, std::vector<History::Row>>> transfers;
  std::map<std::string, double> thresholds;  ///< items, by operation
  std::map<std::string, std::vector<TrainingRow>> training;
  /// Of the targets that it was measured on; without one it fits any driver.
  std::map<std::string, std::string> drivers;
};

/// Of one target, for telemetry.
struct TargetState {
  DeviceTarget target;
  BreakerState breaker = BreakerState::closed;
  std::uint64_t breaker_openings = 0;
  double success_rate = 1;
  std::uint64_t outcomes = 0;  ///< that the rate is taken over
  double queued_us = 0;
  std::uint64_t drifts = 0;  ///< of the target as a whole
  double guess_error = 0;    ///< FirstGuess::error_factor()
  double load = 1;           ///< times that it is slower now than usual
  std::optional<std::uint64_t> free_bytes;
};

/// Safe for several threads. Never runs anything itself; the clock is injected.
class Scheduler {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Scheduler(HybridOptions options = {}, Clock clock = steady_clock());

  /// Adds a device and returns its target, from 1 on; at most 63.
  std::size_t add_device(DeviceTarget device);
  void set_available(std::size_t target, bool available);
  /// It is there, and no software that was not admitted.
  bool admits(std::size_t target) const;

  /// Chooses. Follow with record() or cancel(): the target counts as busy with the task until then.
  /// Cost: below 1 µs.
  Decision decide(const TaskShape& task);
  /// Chooses one target for tasks that follow each other, by the sum of what each takes there. The
  /// bytes of each are those that come from outside of them, and go there. Nothing is reserved:
  /// follow() does that as they come.
  Decision place(std::span<const TaskShape> tasks);
  /// One task goes where it was placed, with all of them or by the user, for the same reason.
  /// Follow with record() or cancel(), as decide().
  Decision follow(const TaskShape& task, const Decision& placed);
  /// The task ran where it was sent.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// It ran elsewhere or not at all.
  void cancel(const Decision& decision);
  /// A run that nobody decided: warming up, falling back, splitting.
  void record(const TaskShape& task, std::size_t target, const Outcome& outcome);
  /// The host has read results of queued work, in so much time beside the kernels'.
  ///
  ///   sent  bytes that were brought there since the last time: their way may end while it waits
  void record_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes, double us);

  Prediction predict(const TaskShape& task, std::size_t target) const;
  /// CPU time over that of the device that is best; 0 until both have run.
  double speed_up(const TaskShape& task) const;
  double success_rate(std::size_t target) const;
  /// Samples of one kernel on one target near one size, beside the first.
  std::uint64_t samples(const TaskShape& task, std::size_t target) const;
  /// Items below which kernels of an operation that have not been measured stay on the CPU.
  ///
  ///   first  TaskShape::first_threshold
  double threshold(std::string_view operation, std::uint64_t first = 0) const;
  /// Outcomes that were recorded and taught something.
  std::uint64_t lessons() const;

  std::vector<TargetState> targets() const;
  Knowledge knowledge() const;
  /// Takes what is known elsewhere as priors; what has been measured here stays.
  void merge(const Knowledge& knowledge);

  const HybridOptions& options() const { return options_; }
  double now() const { return clock_(); }

 private:
  enum class Side : std::int8_t { none, cpu, device };
  struct Kernel {
    std::vector<History> targets;
    std::array<Side, kSizeClasses> sides{};  // where measured tasks last went
    std::uint64_t refused = 0;               // targets that cannot run it
    std::uint64_t used = 0;                  // tick
    std::string operation;
  };
  struct Transfers {
    History upload, submit, read_back;
  };
  /// What the wait for a result of queued work goes by: what was sent before it and what comes
  /// back, which the host copies once more.
  static std::uint64_t moved_bytes(std::uint64_t sent, std::uint64_t back) {
    return sent + 2 * back;
  }
  struct Target {
    Target(DeviceTarget target, const HybridOptions& options)
        : device(std::move(target)), breaker(options) {}

    DeviceTarget device;
    Breaker breaker;
    std::map<int, Breaker> out_of_memory;  // by size class of bytes
    Transfers tasks, operations;           // operations: TaskShape::queued
    FirstGuess guess;
    std::vector<TrainingRow> rows;
    std::size_t next_row = 0;
    DriftWatch watch{6, 3};
    LoadWatch load;
    mutable std::optional<std::uint64_t> free_bytes;
    mutable double free_known_at = -1;  // seconds
    std::uint64_t drifts = 0;
    double queued_us = 0;
  };
  /// A part of an account by its name in Knowledge.
  struct TransferPart {
    const char* name;
    Transfers Target::*account;
    History Transfers::*part;
  };
  static const std::array<TransferPart, 5> kTransferParts;

  bool usable(std::size_t target, bool admit_software = false) const;
  std::optional<Reason> refusal(const TaskShape& task, const Kernel* kernel, std::size_t target,
                                double now) const;
  std::optional<std::uint64_t> free_bytes(const Target& target, double now) const;
  /// `sent`: bytes that tasks before it bring there, and nothing has been read since.
  Prediction predicted(const TaskShape& task, const Kernel* kernel, std::size_t target,
                       std::uint64_t sent = 0) const;
  Prediction predicted(std::span<const TaskShape> tasks, std::size_t target) const;
  Decision choose(std::span<const TaskShape> tasks);
  void reserve(Decision& decision);
  /// The device for tasks, or why there is none.
  Reason find_device(std::span<const TaskShape> tasks, Decision& decision) const;
  void weigh(std::span<const TaskShape> tasks, Decision& decision);
  void weigh_measured(Side& side, Decision& decision) const;
  bool tries_cpu(std::span<const TaskShape> tasks, const Decision& decision) const;
  Side& side_of(std::span<const TaskShape> tasks);
  bool explores(const TaskShape& task, const Decision& decision);
  void learn(const TaskShape& task, std::size_t target, const Outcome& outcome);
  void learn_kernel(const TaskShape& task, std::size_t target, double us, bool settled);
  static void keep_row(Target& target, TrainingRow row);
  void judge(const TaskShape& task, std::size_t target, const Outcome& outcome);
  void move_threshold(const TaskShape& task, const Kernel& kernel, std::size_t device);
  void release(const Decision& decision);
  Kernel* find(Hash128 hash) const;
  Kernel& make(Hash128 hash, std::string_view operation);
  void forget_oldest();
  double threshold_of(std::string_view operation, std::uint64_t first) const;

  const HybridOptions options_;
  const Clock clock_;
  mutable std::mutex mutex_;
  std::vector<Target> targets_;
  mutable std::unordered_map<Hash128, Kernel> kernels_;
  std::map<std::string, double, std::less<>> thresholds_;
  std::unordered_map<Hash128, Side> together_;  // where tasks that were placed as one last went
  std::uint64_t tick_ = 0, lessons_ = 0;
  std::uint64_t since_exploring_ = 0;
  double total_us_ = 0, explored_us_ = 0;
};

/// The decision and its terms in some lines of text.
///
///   device  name of the device that was weighed
std::string explain(const Decision& decision, std::string_view device = "device");

}  // namespace topograd::runtime::hybrid
