// Frames of solves: their numbers, positions, colours, times and rates.
#pragma once

#include "../../solver/summary.hpp"
#include "colors.hpp"
#include "frame.hpp"
#include "mailbox.hpp"
#include "subject.hpp"

#include <chrono>
#include <cstdint>
#include <span>

namespace topograd::view {

/// For one frame after the other: start_clock(), begin(), add() after the solve, show().
class FrameMaker {
 public:
  ///   start  of the shown points; it and the subject outlive this
  FrameMaker(Subject& subject, std::span<const double> start)
      : subject_(subject), colors_(subject, start), numbers_(start.size()) {}

  /// The work for a frame begins.
  void start_clock() { begun_ = Clock::now(); }
  /// Since then.
  double milliseconds() const;
  /// The next frame, whose commands are applied.
  Frame begin(std::uint64_t drag);
  /// Adds the results of its solve, which took this long.
  void add(Frame& frame, const Summary& summary, double solve_ms);
  /// Adds positions and colours.
  void show(Frame& frame, Coloring coloring);
  /// Nothing is solved for a while: rates are those of work.
  void rest() { rate_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  Subject& subject_;
  Colors colors_;
  std::size_t numbers_;  // three for each shown point
  std::uint64_t frames_ = 0, compiled_ = 0;
  Rate rate_;
  Clock::time_point begun_;
};

}  // namespace topograd::view
