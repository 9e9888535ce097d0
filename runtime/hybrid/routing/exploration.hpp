// How often tasks run on the slower side, to keep its measurements current.
#pragma once

#include "choice.hpp"
#include "decision.hpp"
#include "options.hpp"

#include <algorithm>
#include <cstdint>

namespace topograd::runtime::hybrid {

/// Lets one task in HybridOptions::explore_every run on the other side, while this costs less than
/// HybridOptions::explore_share of all time. Not thread-safe.
class Exploration {
 public:
  /// `options` outlives it.
  explicit Exploration(const HybridOptions& options) : options_(options) {}

  /// Counts a decision. Returns true if the task should run on the other side instead.
  bool explores(const TaskShape& task, const Decision& decision) {
    if (options_.explore_every == 0 || task.deadline_us > 0) return false;
    const bool on_cpu = decision.target == kCpu;
    const Prediction& here = on_cpu ? decision.on_cpu : decision.on_device;
    const Prediction& there = on_cpu ? decision.on_device : decision.on_cpu;
    const double now = here.terms.work();
    const bool sure = here.measured && there.measured &&
                      decision.confidence >= options_.sure_confidence &&
                      there.terms.work() > kMuchSlower * now;
    if (++since_ < options_.explore_every * (sure ? kMoreRarely : 1)) return false;
    const bool known = there.measured || there.guessed;
    const double extra = known ? std::max(0.0, there.terms.work() - now) : kUnknownFactor * now;
    if (explored_us_ + extra > options_.explore_share * total_us_) return false;
    since_ = 0;
    return true;
  }

  /// Counts the time of a task, and what its exploration cost.
  void ran(const Decision& decision, const Outcome& outcome) {
    if (!outcome.success || decision.reason == Reason::forced) return;
    const double us = outcome.times.work();
    total_us_ += us;
    const Prediction& other = decision.target == kCpu ? decision.on_device : decision.on_cpu;
    if (decision.reason == Reason::explored) explored_us_ += std::max(0.0, us - other.terms.work());
  }

 private:
  // A side that is certainly this many times slower is explored less often by the same factor.
  static constexpr double kMuchSlower = 2;
  static constexpr std::uint64_t kMoreRarely = 4;

  const HybridOptions& options_;
  std::uint64_t since_ = 0;  // decisions since the last exploration
  double total_us_ = 0, explored_us_ = 0;
};

}  // namespace topograd::runtime::hybrid
