// Names of targets, lanes of the trace, and texts of the log.
#include "recorder.hpp"

#include "routing/scheduler.hpp"

#include <utility>

namespace topograd::runtime::hybrid {

void Recorder::set_log(Log log, LogLevel least) {
  log_ = std::move(log);
  least_level_ = least;
}

void Recorder::log(LogLevel level, const std::string& text) const {
  if (log_ && level >= least_level_) log_(level, text);
}

void Recorder::decided(std::string_view operation, const Decision& decision) {
  if (counts_) telemetry_.routed(devices_.name_of(decision.target), decision.reason);
  if (log_ && least_level_ == LogLevel::trace) {
    log(LogLevel::trace,
        std::string(operation) + " -> " + explain(decision, devices_.name_of(decision.device)));
  }
}

void Recorder::ran(std::string_view operation, std::size_t target, const Outcome& outcome,
                   std::uint64_t items, double end_seconds) {
  if (outcome.success && !outcome.untimed)
    trace_parts(operation, target, end_seconds, outcome.times, items);
  if (counts_) telemetry_.ran(operation, devices_.name_of(target), outcome, items);
}

/// Parts follow each other and end at the task's end.
void Recorder::trace_parts(std::string_view operation, std::size_t target, double end_seconds,
                           const Terms& times, std::uint64_t items) {
  if (!trace_.on()) return;
  const std::string& lane = devices_.name_of(target);
  const bool on_device = target != kCpu;
  double at = 1e6 * end_seconds - times.work();
  const std::string count = std::to_string(items);
  trace_.add({std::string(operation), lane, at, times.work(), {{"items", count}}, on_device});
  if (!on_device) return;
  const std::pair<const char*, double> parts[] = {{"upload", times.upload},
                                                  {"submit", times.submit},
                                                  {"kernel", times.kernel},
                                                  {"read-back", times.read_back}};
  for (const auto& [part, us] : parts) {
    if (us > 0) trace_.add({part, lane, at, us, {}, on_device});
    at += us;
  }
}

void Recorder::observe(std::string_view operation, std::uint64_t items,
                       const ExecutionStats& stats) const {
  if (observer_) observer_(operation, items, stats);
}

void Recorder::read_back(std::string_view operation, std::size_t target, std::uint64_t bytes) {
  if (counts_) telemetry_.read_back(operation, devices_.name_of(target), bytes);
}

void Recorder::fell_back(std::string_view operation, const std::string& device,
                         const Error& error) {
  if (counts_) telemetry_.fell_back(operation, device, error.code());
  log(LogLevel::warning, "task \"" + std::string(operation) + "\": " + device +
                             " failed, the CPU takes over: " + error.what());
}

void Recorder::coalesced(std::uint64_t tasks) {
  if (counts_) telemetry_.coalesced(tasks);
}

void Recorder::split() {
  if (counts_) telemetry_.split();
}

}  // namespace topograd::runtime::hybrid
