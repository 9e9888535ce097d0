// When tasks run on a target that seems slower, to keep its measurements current.
#pragma once

#include "choice.hpp"
#include "decision.hpp"
#include "options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

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

}  // namespace topograd::runtime::hybrid
