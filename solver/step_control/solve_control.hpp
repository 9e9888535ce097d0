// Common bookkeeping of all minimisers: history with times, callbacks, and termination.
#pragma once

#include "../options.hpp"
#include "../summary.hpp"

#include <chrono>
#include <string>

namespace topograd {

/// True if only the gradient ends a minimisation: steps go on where rounding hides what they do to
/// the cost.
inline bool ends_by_gradient(const SolverOptions& options) {
  return options.absolute_gradient_tolerance > 0 && options.function_tolerance == 0;
}

/// Keeps the history in a summary, and ends the solve at a limit or on request of a callback.
class SolveControl {
 public:
  /// The unit of check_limits() is at least this share of the gradient's size at the start.
  static constexpr double kShareOfStart = 1e-4;

  /// Both must outlive it. An existing history is continued.
  SolveControl(const SolverOptions& options, Summary& summary);

  bool finished() const { return finished_; }
  void finish(Termination termination, std::string message);
  /// The end does not stand: the solve goes on.
  void go_on() { finished_ = false; }
  /// Continues a history that a checkpoint had; `finished`: its end stands.
  void resume(bool finished);
  /// Ends with CONVERGENCE and the message "what: value <= bound".
  void converge(const char* what, double value, double bound);
  /// Seconds since the start of the history.
  double elapsed() const;
  /// Adds a step to the history, with its times, and calls the caller's callback, which ends a
  /// solve only if nothing else has.
  void record(IterationSummary iteration);
  /// Ends the solve by the gradient's tolerance, the time limit or the number of iterations, in
  /// this order.
  ///
  ///   what      name of the gradient's size for the message
  ///   gradient  its size, compared with
  ///   unit      times SolverOptions::gradient_tolerance
  ///   gradient_max  max |g_i|, compared with SolverOptions::absolute_gradient_tolerance
  void check_limits(const char* what, double gradient, double unit, double gradient_max);

 private:
  using Clock = std::chrono::steady_clock;

  void call_back();

  const SolverOptions& options_;
  Summary& summary_;
  Clock::time_point started_ = Clock::now();
  double before_ = 0;  // seconds of the earlier history
  double last_record_ = 0;
  bool finished_ = false;
};

}  // namespace topograd
