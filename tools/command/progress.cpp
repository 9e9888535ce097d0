// A line on a terminal that shows how far a solve is.
#include "command/progress.hpp"

#include <topograd/solver/summary.hpp>

#include <unistd.h>

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
  options.callback = [this, next = options.callback](const IterationSummary& step) {
    show(step);
    return next ? next(step) : CallbackReturn::SOLVER_CONTINUE;
  };
}

void Progress::show(const IterationSummary& step) {
  constexpr std::chrono::milliseconds kPause{100};
  const Clock::time_point now = Clock::now();
  if (dirty_ && now - last_ < kPause) return;
  last_ = now;
  dirty_ = true;
  std::fprintf(stderr, "%s%5d  cost %.6e  |gradient| %.2e  |step| %.2e  %.1f s", kClearLine,
               step.iteration, step.cost, step.gradient_max_norm, step.step_norm,
               step.cumulative_time_in_seconds);
  std::fflush(stderr);
}

}  // namespace topograd::command
