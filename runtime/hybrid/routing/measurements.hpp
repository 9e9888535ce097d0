// Measured times of kernels and transfers on each target, and its slow-down by other users.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../../ir/hash.hpp"
#include "decision.hpp"
#include "first_guess.hpp"
#include "history.hpp"
#include "knowledge.hpp"

namespace topograd::runtime::hybrid {

/// Trials of a target that has no measurements of a kernel.
struct Trials {
  std::array<std::uint8_t, kSizeClasses> at_size{};  ///< while it was not measured at this size
  std::uint8_t first = 0;                            ///< while it was not measured at all
};

struct KernelTimes {
  std::vector<History> targets;
  std::vector<Trials> trials;              ///< by target
  std::array<Side, kSizeClasses> sides{};  ///< last side of measured tasks
  std::uint64_t refused = 0;               ///< targets that cannot run it, one bit each
  std::uint64_t used = 0;                  ///< order of the last use
  std::string operation;

  /// The history on this target, or nullptr.
  const History* on(std::size_t target) const {
    return target < targets.size() ? &targets[target] : nullptr;
  }
  Trials& tried(std::size_t target) {
    if (trials.size() <= target) trials.resize(target + 1);
    return trials[target];
  }
};

/// At most `most` kernels; the least recently used leave first. Not thread-safe.
class KernelTable {
 public:
  explicit KernelTable(std::uint64_t most) : most_(most) {}

  /// nullptr if it is not known.
  const KernelTimes* find(Hash128 hash) const;
  KernelTimes* find(Hash128 hash);
  /// Finds or adds it. References to other kernels may end.
  KernelTimes& make(Hash128 hash, std::string_view operation);
  /// Marks it as the last one used, if it is known.
  void use(Hash128 hash);
  /// Number of kernels that can be added before others leave.
  std::uint64_t room() const;
  const std::unordered_map<Hash128, KernelTimes>& all() const { return kernels_; }

  /// Returns the last side of tasks that ran as one, by kernels and size classes; all are known.
  Side& last_side(std::span<const TaskShape> tasks);
  /// Applies a change of the target to all kernels but those that have noticed it themselves.
  void shift(std::size_t target, const DriftWatch::Change& change);

 private:
  void forget_oldest();

  std::uint64_t most_;
  std::unordered_map<Hash128, KernelTimes> kernels_;
  std::unordered_map<Hash128, Side> together_;  // by the hash of several tasks
  std::uint64_t tick_ = 0;
};

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

/// Times of kernels and transfers on each target, and thresholds of operations. Not thread-safe.
class Measurements {
 public:
  /// Both outlive it.
  Measurements(const HybridOptions& options, const Clock& clock);

  /// Adds a target, which takes the next number from 0 on. Data are exchanged under its name.
  void add_target(std::string name);

  /// Predicts tasks that run as one, without waiting for earlier work. The confidence is that of
  /// the parts that take long.
  Prediction predict(std::span<const TaskShape> tasks, std::size_t target) const;
  /// False if the target has refused the kernel.
  bool runs_on(Hash128 kernel, std::size_t target) const;
  /// Samples of one kernel on one target near one size, without the first.
  std::uint64_t samples(const TaskShape& task, std::size_t target) const;
  /// Number of items below which unmeasured kernels of an operation stay on the CPU.
  double threshold(std::string_view operation, std::uint64_t first) const;

  /// Begins a trial of a target at a size where one of the tasks was never measured there. Returns
  /// false if all were, or if the tasks were tried often enough.
  bool try_at(std::span<const TaskShape> tasks, std::size_t target);
  /// Begins a trial of a target that has no measurements of the task's kernel. Returns false if it
  /// was tried often enough, or if the kernel was never measured anywhere.
  bool try_first(const TaskShape& task, std::size_t target);

  /// Marks the tasks' kernels as the last ones used.
  void use(std::span<const TaskShape> tasks);
  /// Returns the last side of these tasks; all of them are measured.
  Side& last_side(std::span<const TaskShape> tasks) { return kernels_.last_side(tasks); }

  /// Learns the times of a successful task that ended at `now` (seconds).
  void learn(const TaskShape& task, std::size_t target, const Outcome& outcome, double now);
  /// As in Scheduler::record_read_back().
  void learn_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes, double us);
  /// Records that the target cannot run the task's kernel.
  void refuse(const TaskShape& task, std::size_t target);
  /// Moves the threshold for new kernels of this operation towards the size where the CPU and this
  /// device are equal.
  void move_threshold(const TaskShape& task, std::size_t device);
  /// Number of outcomes that were learned.
  std::uint64_t outcomes() const { return outcomes_; }

  /// The state of a target as a whole.
  struct Condition {
    std::uint64_t drifts = 0;
    double guess_error = 0;  ///< FirstGuess::error_factor()
    double load = 1;         ///< present slow-down
  };
  Condition condition(std::size_t target) const;

  Knowledge knowledge() const;
  /// Adds data from elsewhere as priors; measurements made here stay.
  void merge(const Knowledge& knowledge);

 private:
  struct TargetTimes {
    std::string name;
    TransferTimes transfers;
    TrainingSet training;
    DriftWatch watch{6, 3};
    LoadWatch load;
    std::uint64_t drifts = 0;
  };

  Prediction predict_one(const TaskShape& task, std::size_t target, std::uint64_t sent) const;
  struct Run {
    double us = 0, now = 0;  ///< time of the kernel; seconds at its end
    bool settled = false;    ///< Outcome::settled
  };
  void learn_kernel(const TaskShape& task, std::size_t target, const Run& run);

  const HybridOptions& options_;
  const Clock& clock_;
  std::vector<TargetTimes> targets_;
  KernelTable kernels_;
  std::map<std::string, double, std::less<>> thresholds_;  // items, by operation
  std::uint64_t outcomes_ = 0;
};

}  // namespace topograd::runtime::hybrid
