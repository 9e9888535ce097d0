// Shows the progress of a solve on standard error.
#pragma once

#include "../../../solver/options.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace topograd::command {

/// Shows the last step of a running solve on standard error. On a terminal it is one line, from the
/// first second on, rewritten at most ten times per second and cleared at the end; elsewhere a line
/// every minute.
class Progress {
 public:
  ///   wanted  false: show nothing
  ///   error   the problem's error at a cost, "RMSE 0.931 px"; empty: there is none to show
  explicit Progress(bool wanted, std::function<std::string(double cost)> error = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows the steps of a solve by its callback; this object must outlive the solve.
  void watch(SolverOptions& options);

 private:
  using Clock = std::chrono::steady_clock;

  void show(const IterationSummary& step);

  bool wanted_, on_terminal_;
  std::function<std::string(double cost)> error_;
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
