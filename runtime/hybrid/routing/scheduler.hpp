// The scheduler: chooses the target of each task by rules, then measurements, then guesses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decision.hpp"
#include "measurements.hpp"
#include "options.hpp"
#include "target.hpp"

namespace topograd::runtime::hybrid {

/// A target that may take a task.
struct Candidate {
  std::size_t target = kCpu;
  Prediction prediction;
};

/// Lets one task in HybridOptions::explore_every run on another target, the other targets in turn,
/// and also tasks for which another target seems near and was never measured at their size, while
/// this costs less than HybridOptions::explore_share of all time. Not thread-safe.
class Exploration {
 public:
  /// `options` outlives it.
  explicit Exploration(const HybridOptions& options) : options_(options) {}

  /// Counts a decision. Returns the target on which the task should run instead, or nullptr.
  ///
  ///   here       prediction for the target that was chosen
  ///   others     the other targets that may take it
  ///   try_there  begins a trial of another target, if it was never measured at this size; asked
  ///              only if its prediction, which comes from other sizes then, is near
  template <class TryThere>
  const Candidate* explores(const TaskShape& task, const Prediction& here,
                            std::span<const Candidate> others, const TryThere& try_there) {
    if (options_.explore_every == 0 || task.deadline_us > 0) return nullptr;
    const double now = here.terms.work();
    const auto affordable = [&](double extra) {
      return explored_us_ + extra <= options_.explore_share * total_us_;
    };
    for (const Candidate& other : others) {
      const Prediction& there = other.prediction;
      const bool near = here.measured && there.measured && there.terms.work() < kNear * now;
      if (near && affordable(std::max(0.0, there.terms.work() - now)) && try_there(other.target))
        return &other;
    }
    ++since_;
    for (std::size_t k = 0; k < others.size(); ++k) {
      const Candidate& other = others[(next_ + k) % others.size()];
      const Prediction& there = other.prediction;
      const bool sure = here.measured && there.measured &&
                        std::min(here.confidence, there.confidence) >= options_.sure_confidence &&
                        there.terms.work() > kMuchSlower * now;
      if (since_ < options_.explore_every * (sure ? kMoreRarely : 1)) continue;
      const double extra =
          there.known() ? std::max(0.0, there.terms.work() - now) : kUnknownFactor * now;
      if (!affordable(extra)) continue;
      since_ = 0;
      next_ = (next_ + k + 1) % others.size();
      return &other;
    }
    return nullptr;
  }

  /// Counts the time of a task, and what its exploration cost.
  void ran(const Decision& decision, const Outcome& outcome) {
    if (!outcome.success || decision.reason == Reason::forced) return;
    const double us = outcome.times.work();
    total_us_ += us;
    if (decision.reason == Reason::explored)
      explored_us_ += std::max(0.0, us - decision.instead_us);
  }

 private:
  // A target that is certainly this many times slower is explored less often by the same factor.
  static constexpr double kMuchSlower = 2;
  static constexpr std::uint64_t kMoreRarely = 4;
  // Predictions from other sizes are wrong by such factors.
  static constexpr double kNear = 1.6;

  const HybridOptions& options_;
  std::uint64_t since_ = 0;  // decisions since the last exploration
  std::size_t next_ = 0;     // the other target whose turn it is
  double total_us_ = 0, explored_us_ = 0;
};

/// Thread-safe. Never runs anything itself; the clock is injected.
class Scheduler {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Scheduler(HybridOptions options = {}, Clock clock = steady_clock());

  /// Adds a device and returns its target, from 1 on; at most 63.
  std::size_t add_device(DeviceFacts facts, FreeBytes free_bytes = {});
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
  /// Adds what `load` returns, if anything, as priors when they first matter: before a device is
  /// added, at the first question about measurements, or after many outcomes. A decision between
  /// the CPU and nothing needs none. Call it before the first decision. `load` is called once, by
  /// any thread, and must not call the scheduler.
  void merge_later(std::function<const Knowledge*()> load);

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
  /// Merges the priors, if they still wait, and learns the outcomes that wait for them.
  void load() const;

  /// An outcome of the CPU that is learned after the priors.
  struct Waiting {
    TaskShape task;
    std::string operation;  // of the task
    Outcome outcome;
    double now = 0;
  };

  const HybridOptions options_;
  const Clock clock_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Target> targets_;
  // Complete after load(), which questions call first.
  mutable Measurements measurements_;
  mutable std::function<const Knowledge*()> priors_;
  mutable std::vector<Waiting> waiting_;
  Exploration exploration_;
  std::vector<Candidate> candidates_, others_;  // of the latest choice; they keep their memory
};

/// Describes a decision and its terms in some lines.
///
///   device  name of the device that was considered
std::string explain(const Decision& decision, std::string_view device = "device");

}  // namespace topograd::runtime::hybrid
