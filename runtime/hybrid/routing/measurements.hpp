// Measurements of all targets: predictions, learning, and exchange as plain data.
#pragma once

#include "decision.hpp"
#include "first_guess.hpp"
#include "kernel_table.hpp"
#include "knowledge.hpp"
#include "load_watch.hpp"
#include "transfer_times.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::hybrid {

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
