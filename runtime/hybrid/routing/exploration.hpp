// When tasks run on the side that seems slower, to keep its measurements current.
#pragma once

#include "choice.hpp"
#include "decision.hpp"
#include "options.hpp"

#include <algorithm>
#include <cstdint>

namespace topograd::runtime::hybrid {

/// Lets one task in HybridOptions::explore_every run on the other side, and those whose other side
/// seems near and was never measured at their size, while this costs less than
/// HybridOptions::explore_share of all time. Not thread-safe.
class Exploration {
 public:
  /// `options` outlives it.
  explicit Exploration(const HybridOptions& options) : options_(options) {}

  /// Counts a decision. Returns true if the task should run on the other side instead.
  ///
  ///   try_there  begins a trial of the other side, if it was never measured at this size; asked
  ///              only if its prediction, which comes from other sizes then, is near
  template <class TryThere>
  bool explores(const TaskShape& task, const Decision& decision, const TryThere& try_there) {
    if (options_.explore_every == 0 || task.deadline_us > 0) return false;
    const bool on_cpu = decision.target == kCpu;
    const Prediction& here = on_cpu ? decision.on_cpu : decision.on_device;
    const Prediction& there = on_cpu ? decision.on_device : decision.on_cpu;
    const double now = here.terms.work();
    const bool sure = here.measured && there.measured &&
                      decision.confidence >= options_.sure_confidence &&
                      there.terms.work() > kMuchSlower * now;
    const auto affordable = [&](double extra) {
      return explored_us_ + extra <= options_.explore_share * total_us_;
    };
    const bool near = here.measured && there.measured && there.terms.work() < kNear * now;
    if (near && affordable(std::max(0.0, there.terms.work() - now)) && try_there()) return true;
    if (++since_ < options_.explore_every * (sure ? kMoreRarely : 1)) return false;
    const double extra =
        there.known() ? std::max(0.0, there.terms.work() - now) : kUnknownFactor * now;
    if (!affordable(extra)) return false;
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
  // Predictions from other sizes are wrong by such factors.
  static constexpr double kNear = 1.6;

  const HybridOptions& options_;
  std::uint64_t since_ = 0;  // decisions since the last exploration
  double total_us_ = 0, explored_us_ = 0;
};

}  // namespace topograd::runtime::hybrid
