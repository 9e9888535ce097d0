// Shows the progress of a solve on standard error.
#include "progress.hpp"

#include "../arguments/output.hpp"

#include "../../../solver/summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace topograd::command {
namespace {

constexpr const char* kClearLine = "\r\033[K";

constexpr std::chrono::milliseconds kPause{100}, kFirst{1000}, kPlainPause{60000};

}  // namespace

Progress::Progress(bool wanted)
    : wanted_(wanted), on_terminal_(::isatty(STDERR_FILENO) != 0), last_(Clock::now()) {
  if (wanted_ && on_terminal_)
    ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
}

Progress::~Progress() {
  ticker_ = {};
  if (!dirty_) return;
  std::fputs(kClearLine, stderr);
  std::fflush(stderr);
}

void Progress::phase(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  phase_ = visible(text);
  phase_begin_ = Clock::now();
  compiled_before_ = shaders_compiled();
}

void Progress::tick(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    ended_.wait_for(lock, stop, dirty_ ? kPause : kFirst, [] { return false; });
    if (!stop.stop_requested() && !phase_.empty()) show_phase();
  }
}

void Progress::show_phase() {
  const std::uint64_t compiled = shaders_compiled() - compiled_before_;
  const std::string shaders =
      compiled == 0 ? "" : ", compiling shaders (" + std::to_string(compiled) + ")";
  const std::chrono::duration<double> seconds = Clock::now() - phase_begin_;
  std::fprintf(stderr, "%s%s%s  %.1f s", kClearLine, phase_.c_str(), shaders.c_str(),
               seconds.count());
  std::fflush(stderr);
  dirty_ = true;
}

void Progress::watch(const SolverOptions& options, std::function<std::string(double)> error) {
  if (!wanted_) return;
  phase("planning");
  error_ = std::move(error);
  last_ = Clock::now();
  most_steps_ = options.max_iterations;
  most_seconds_ = options.time_limit_seconds;
  watch_.emplace([this](const SolveProgress& progress) { show(progress); });
}

void Progress::show(const SolveProgress& progress) {
  const std::scoped_lock lock(mutex_);
  phase_.clear();
  const Clock::time_point now = Clock::now();
  if (now - last_ < (!on_terminal_ ? kPlainPause : dirty_ ? kPause : kFirst)) return;
  last_ = now;
  dirty_ = on_terminal_;
  const std::string text =
      progress.iteration == nullptr ? components_text(progress) : step_text(*progress.iteration);
  std::fprintf(stderr, "%s%s%s", on_terminal_ ? kClearLine : "", text.c_str(),
               on_terminal_ ? "" : "\n");
  std::fflush(stderr);
}

/// "step 3  cost 1.2e-03  |gradient| 1e-05  2.0 s, at most 5 s left".
std::string Progress::step_text(const IterationSummary& step) const {
  char cost[64], rest[64];
  const double seconds = step.cumulative_time_in_seconds;
  const std::string error = error_ ? error_(step.cost) : "";
  std::snprintf(cost, sizeof cost, "step %d  cost %.6e  ", step.iteration, step.cost);
  std::snprintf(rest, sizeof rest, "|gradient| %.2e  %.1f s", step.gradient_max_norm, seconds);
  return cost + error + (error.empty() ? "" : "  ") + rest + ", at most " +
         duration(seconds_left(step.iteration, seconds, most_steps_, most_seconds_)) + " left";
}

std::string components_text(const SolveProgress& progress) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", progress.seconds);
  const auto done = static_cast<double>(progress.components_done);
  const double left = static_cast<double>(progress.components) - done;
  return std::to_string(progress.components_done) + " of " + std::to_string(progress.components) +
         " components  " + seconds + ", about " +
         duration(progress.seconds / std::max(done, 1.0) * std::max(left, 0.0)) + " left";
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
