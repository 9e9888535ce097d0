// Metrics and traces of solves.
#include "telemetry.hpp"

#include "output.hpp"

#include "../../../runtime/hybrid/executor.hpp"
#include "../../../runtime/hybrid/routing/knowledge.hpp"
#include "../../../solver/session/routing.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace topograd::command {
namespace {

using runtime::hybrid::TraceEvent;

std::string text_of(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

/// Steps in the lanes of their backends, within the solve, which is in the CPU's lane.
std::vector<TraceEvent> events_of(const Summary& s) {
  constexpr double kUs = 1e6;
  const PhaseTimes& times = s.times;
  std::vector<TraceEvent> events;
  if (times.build_seconds > 0) events.push_back({"build", "cpu", 0, kUs * times.build_seconds, {}});
  const double begin = kUs * times.build_seconds, total = kUs * times.total_seconds;
  events.push_back({"solve", "cpu", begin, total, {{"backend", s.backend}, {"why", s.why}}});
  if (s.iterations.empty()) return events;
  const double steps = kUs * s.iterations.back().cumulative_time_in_seconds;
  const double first = begin + std::max(0.0, total - steps);
  if (times.plan_seconds > 0)
    events.push_back({"plan", "cpu", begin, std::min(kUs * times.plan_seconds, first - begin), {}});
  for (const IterationSummary& i : s.iterations) {
    const double end = first + kUs * i.cumulative_time_in_seconds;
    const double us = kUs * i.iteration_time_in_seconds;
    const bool on_device = i.on_device && s.kernels_on_device > 0;
    events.push_back({"step " + std::to_string(i.iteration),
                      on_device ? s.device : "cpu",
                      end - us,
                      us,
                      {{"cost", text_of(i.cost)},
                       {"accepted", i.step_is_successful ? "yes" : "no"},
                       {"linear_iterations", std::to_string(i.linear_iterations)}},
                      on_device});
  }
  return events;
}

void warn(runtime::hybrid::LogLevel, const std::string& text) { print_warning(text); }

}  // namespace

void warn_of_fallbacks() {
  static std::once_flag once;
  std::call_once(once, [] { hybrid_executor().set_log(warn, runtime::hybrid::LogLevel::warning); });
}

std::string metrics_text(const std::string& path) {
  const runtime::hybrid::Executor& executor = hybrid_executor();
  return path.ends_with(".json") ? metrics_json(executor) : prometheus_text(executor);
}

std::string training_text(const std::string& path, const runtime::hybrid::Knowledge& knowledge) {
  return path.ends_with(".json") ? training_json(knowledge) : training_csv(knowledge);
}

std::string training_text(const std::string& path) {
  return training_text(path, hybrid_executor().scheduler().knowledge());
}

std::string trace_text(const Summary& summary, std::vector<TraceEvent> more) {
  std::vector<TraceEvent> events = events_of(summary);
  constexpr double kUs = 1e6;
  for (const runtime::ProfileEvent& event : summary.profile.events) {
    const runtime::KernelTime& row = summary.kernels[event.row];
    const bool on_device = row.work == runtime::TimedWork::device;
    events.push_back({row.name,
                      on_device ? summary.device : "cpu",
                      event.begin_us + kUs * summary.times.build_seconds,
                      event.us,
                      {},
                      on_device});
    if (!row.topology.empty()) events.back().arguments = {{"topology", row.topology}};
  }
  for (TraceEvent& event : more) {
    event.start_us += kUs * summary.times.build_seconds;
    events.push_back(std::move(event));
  }
  return runtime::hybrid::to_chrome_trace(std::move(events));
}

}  // namespace topograd::command
