// Frames from summaries and positions.
#include "frame_maker.hpp"

#include <algorithm>
#include <tuple>

namespace topograd::view {
namespace {

constexpr double kMilliseconds = 1000;

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

double FrameMaker::milliseconds() const { return milliseconds_since(begun_); }

Frame FrameMaker::begin(std::uint64_t drag) {
  Frame frame{.number = ++frames_, .drag = drag};
  frame.milliseconds.apply = milliseconds();
  return frame;
}

void FrameMaker::add(Frame& frame, const Summary& summary, double solve_ms) {
  frame.milliseconds.solve = solve_ms;
  frame.milliseconds.evaluate = kMilliseconds * summary.times.evaluation_seconds;
  frame.milliseconds.linear = kMilliseconds * summary.times.linear_solver_seconds;
  frame.cost = summary.final_cost;
  frame.gradient = summary.iterations.empty() ? 0 : summary.iterations.back().gradient_max_norm;
  frame.steps = summary.num_iterations();
  frame.backend = summary.backend;
  frame.device = summary.device;
  frame.termination = name(summary.termination);
  frame.compiled = compiled_ += summary.shaders_compiled;
  // Below this share of the cost a solve changes nothing that can be seen.
  constexpr double kSettled = 1e-9;
  frame.settled = !(summary.initial_cost - summary.final_cost > kSettled * summary.initial_cost);
  rate_.add(frame.steps);
  std::tie(frame.solves_per_second, frame.steps_per_second) = rate_.per_second();
}

void FrameMaker::show(Frame& frame, Coloring coloring) {
  frame.positions.resize(numbers_);
  subject_.show(frame.positions);
  const auto color_begun = Clock::now();
  frame.values = colors_.values(coloring, frame.positions);
  if (!frame.values.empty()) {
    const auto [low, high] = std::ranges::minmax(frame.values);
    frame.low = low;
    frame.high = high;
  }
  frame.milliseconds.color = milliseconds_since(color_begun);
  frame.milliseconds.total = milliseconds();
}

}  // namespace topograd::view
