// Shows the progress of a solve in a line on the terminal.
#include "progress.hpp"

#include "../../../solver/summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace topograd::command {
namespace {

constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(bool wanted) : shown_(wanted && ::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (!dirty_) return;
  std::fputs(kClearLine, stderr);
  std::fflush(stderr);
}

void Progress::watch(SolverOptions& options) {
  if (!shown_) return;
  most_steps_ = options.max_iterations;
  most_seconds_ = options.time_limit_seconds;
  options.callback = [this, next = options.callback](const IterationSummary& step) {
    show(step);
    return next ? next(step) : CallbackReturn::SOLVER_CONTINUE;
  };
}

void Progress::show(const IterationSummary& step) {
  constexpr std::chrono::milliseconds kPause{100};
  constexpr double kQuietSeconds = 1;  // shorter solves show nothing
  const Clock::time_point now = Clock::now();
  const double seconds = step.cumulative_time_in_seconds;
  if (seconds < kQuietSeconds || (dirty_ && now - last_ < kPause)) return;
  last_ = now;
  dirty_ = true;
  std::fprintf(stderr, "%sstep %d  cost %.6e  |gradient| %.2e  %.1f s, at most %s left", kClearLine,
               step.iteration, step.cost, step.gradient_max_norm, seconds,
               duration(seconds_left(step.iteration, seconds, most_steps_, most_seconds_)).c_str());
  std::fflush(stderr);
}

double seconds_left(int steps, double seconds, int most_steps, double most_seconds) {
  const double by_steps = seconds / std::max(steps, 1) * std::max(most_steps - steps, 0);
  return std::min(by_steps, std::max(most_seconds - seconds, 0.0));
}

std::string duration(double seconds) {
  char text[32];
  if (seconds < 100) {
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  } else if (seconds < 6000) {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  }
  return text;
}

}  // namespace topograd::command
