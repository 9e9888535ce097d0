// Shows the progress of a solve in a line on the terminal.
#pragma once

#include "../../../solver/options.hpp"

#include <chrono>
#include <string>

namespace topograd::command {

/// Shows the last step of a running solve on one line of standard error, after its first second and
/// at most ten times per second, and clears it at the end. Does nothing if standard error is not a
/// terminal.
class Progress {
 public:
  ///   wanted  false: show nothing
  explicit Progress(bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows the steps of a solve by its callback; this object must outlive the solve.
  void watch(SolverOptions& options);

 private:
  using Clock = std::chrono::steady_clock;

  void show(const IterationSummary& step);

  bool shown_;
  bool dirty_ = false;  // the line must be cleared
  Clock::time_point last_ = {};
  int most_steps_ = 0;
  double most_seconds_ = 0;
};

/// Seconds until a solve reaches its first limit at its present speed.
///
///   steps, seconds            done so far
///   most_steps, most_seconds  the limits
double seconds_left(int steps, double seconds, int most_steps, double most_seconds);

/// "12 s", "3 min" or "2.5 h".
std::string duration(double seconds);

}  // namespace topograd::command
