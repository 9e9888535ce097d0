// What all minimisers keep of a solve: the history with its times, callbacks, and why it ended.
#pragma once

#include "../options.hpp"
#include "../summary.hpp"

#include <chrono>
#include <string>

namespace topograd {

/// Keeps the history in a summary, and ends the solve where a limit or a callback says so.
class SolveControl {
 public:
  /// Of what the gradient's size at the start says: the unit of check_limits() is never less.
  static constexpr double kShareOfStart = 1e-4;

  /// Both outlive it. A summary with a history goes on where it is.
  SolveControl(const SolverOptions& options, Summary& summary);

  bool finished() const { return finished_; }
  void finish(Termination termination, std::string message);
  /// CONVERGENCE with the message "what: value <= bound".
  void converge(const char* what, double value, double bound);
  /// Seconds since the start of the history.
  double elapsed() const;
  /// Adds a step to the history, with its times, and calls the caller back. A callback ends a solve
  /// only if nothing else has.
  void record(IterationSummary iteration);
  /// Ends the solve by the gradient's tolerance, the time limit or the number of iterations, in
  /// this order.
  ///
  ///   what      names the gradient's size for the message
  ///   gradient  its size, which is compared with
  ///   unit      times SolverOptions::gradient_tolerance
  void check_limits(const char* what, double gradient, double unit);

 private:
  using Clock = std::chrono::steady_clock;

  void call_back();

  const SolverOptions& options_;
  Summary& summary_;
  Clock::time_point started_ = Clock::now();
  double before_ = 0;  // seconds of the history that was there
  double last_record_ = 0;
  bool finished_ = false;
};

}  // namespace topograd
