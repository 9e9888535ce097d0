// A line on a terminal that shows how far a solve is.
#pragma once

#include "../../../solver/options.hpp"

#include <chrono>
#include <string>

namespace topograd::command {

/// Shows the last step of a running solve on one line of standard error, from its first second on,
/// at most ten times a second, and clears it at the end. Does nothing where standard error is no
/// terminal.
class Progress {
 public:
  ///   wanted  false: show nothing
  explicit Progress(bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Lets the solve's callback show its steps; this object outlives the solve.
  void watch(SolverOptions& options);

 private:
  using Clock = std::chrono::steady_clock;

  void show(const IterationSummary& step);

  bool shown_;
  bool dirty_ = false;  // there is a line to clear
  Clock::time_point last_ = {};
  int most_steps_ = 0;
  double most_seconds_ = 0;
};

/// Seconds until a solve reaches its first limit at the pace so far.
///
///   steps, seconds            done so far
///   most_steps, most_seconds  the limits
double seconds_left(int steps, double seconds, int most_steps, double most_seconds);

/// "12 s", "3 min" or "2.5 h".
std::string duration(double seconds);

}  // namespace topograd::command
