// Shows the progress of a solve on standard error.
#pragma once

#include "../../../solver/options.hpp"
#include "../../../solver/solve_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace topograd::command {

/// Shows the work of a solve on standard error: the phases before the first step (reading,
/// planning, compiling shaders), then the last step. On a terminal it is one line, from the first
/// second on, rewritten at most ten times per second and cleared at the end; elsewhere a line of
/// the steps every minute.
class Progress {
 public:
  ///   wanted  false: show nothing
  explicit Progress(bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins a phase, "reading bunny.obj".
  void phase(const std::string& text);
  /// Shows the steps of the next solves of this thread, or how many of their components are done,
  /// and that they are planned until the first of them. The options are those of the solves.
  ///
  ///   error  the problem's error at a cost, "RMSE 0.931 px"; empty: there is none to show
  void watch(const SolverOptions& options, std::function<std::string(double cost)> error = {});

 private:
  using Clock = std::chrono::steady_clock;

  void show(const SolveProgress& progress);
  std::string step_text(const IterationSummary& step) const;
  void show_phase();
  void tick(const std::stop_token& stop);

  bool wanted_, on_terminal_;
  std::function<std::string(double cost)> error_;
  std::mutex mutex_;                   // of what follows, and of the line
  std::condition_variable_any ended_;  // wakes the thread
  std::string phase_;                  // empty: steps are shown
  Clock::time_point phase_begin_ = {};
  std::uint64_t compiled_before_ = 0;  // shaders, when the phase began
  bool dirty_ = false;                 // the line must be cleared
  Clock::time_point last_ = {};
  int most_steps_ = 0;
  double most_seconds_ = 0;
  std::optional<SolveWatch> watch_;
  std::jthread ticker_;  // shows phases; ends before the rest does
};

/// Shaders that this process has compiled so far; defined beside what knows the devices.
std::uint64_t shaders_compiled();

/// "1200 of 4000 components  2.0 s, about 5 s left".
std::string components_text(const SolveProgress& progress);

/// Seconds until a solve reaches its first limit at its present speed.
///
///   steps, seconds            done so far
///   most_steps, most_seconds  the limits
double seconds_left(int steps, double seconds, int most_steps, double most_seconds);

/// "12 s", "3 min" or "2.5 h".
std::string duration(double seconds);

}  // namespace topograd::command
