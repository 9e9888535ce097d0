// Frames of solves: their numbers, positions, colours, times and rates.
#pragma once

#include "../../solver/evaluator.hpp"
#include "../../solver/summary.hpp"
#include "exchange.hpp"
#include "frame.hpp"
#include "live_solver.hpp"
#include "subject.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::view {

/// Computes what colours show, by an Evaluator on the CPU that is made when it is first needed.
class Colors {
 public:
  ///   start  of the shown points; must outlive this
  Colors(Subject& subject, std::span<const double> start) : subject_(&subject), start_(start) {}

  /// One number >= 0 for each shown point; 0 for those that no handle can have, except their
  /// displacements. Empty for Coloring::none.
  std::vector<double> values(Coloring coloring, std::span<const double> present);

 private:
  Evaluator& evaluator();
  std::vector<double> residuals();
  std::vector<double> gradients();
  /// For each point the rows of residuals that read it.
  void find_rows();

  Subject* subject_;
  std::span<const double> start_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::uint32_t> first_row_, rows_;  ///< of point p: first_row_[p] .. first_row_[p + 1]
};

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
