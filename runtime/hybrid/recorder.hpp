// The record of an executor's tasks: counters, trace, log and observer.
#pragma once

#include "backend.hpp"
#include "task.hpp"
#include "telemetry/telemetry.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace topograd::runtime::hybrid {

enum class LogLevel { trace, info, warning };
using Log = std::function<void(LogLevel, const std::string&)>;

/// Called after each successful task, including outside work (OutsideWork::record() and ran()),
/// on the thread that ran it, with operation, items and statistics.
using Observer = std::function<void(std::string_view, std::uint64_t, const ExecutionStats&)>;

/// Thread-safe, but log and observer are set before the first task. Targets are those of the list.
class Recorder {
 public:
  /// `devices` outlives it.
  Recorder(const HybridOptions& options, const DeviceList& devices)
      : counts_(options.telemetry), devices_(devices), trace_(options.trace_events) {}

  void set_log(Log log, LogLevel least);
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  void log(LogLevel level, const std::string& text) const;
  void decided(std::string_view operation, const Decision& decision);
  /// Counts a task that ended at this time, and puts it on the trace if its time is known.
  void ran(std::string_view operation, std::size_t target, const Outcome& outcome,
           std::uint64_t items, double end_seconds);
  bool has_observer() const { return static_cast<bool>(observer_); }
  void observe(std::string_view operation, std::uint64_t items, const ExecutionStats& stats) const;
  /// Counts results that were read some time after the task.
  void read_back(std::string_view operation, std::size_t target, std::uint64_t bytes);
  /// Warns that the CPU took over.
  void fell_back(std::string_view operation, const std::string& device, const Error& error);
  void coalesced(std::uint64_t tasks);
  void split();

  Telemetry& telemetry() { return telemetry_; }
  const Telemetry& telemetry() const { return telemetry_; }
  TraceLog& trace() { return trace_; }
  const TraceLog& trace() const { return trace_; }

 private:
  void trace_parts(std::string_view operation, std::size_t target, double end_seconds,
                   const Terms& times, std::uint64_t items);

  const bool counts_;
  const DeviceList& devices_;
  Telemetry telemetry_;
  TraceLog trace_;
  Log log_;
  LogLevel least_level_ = LogLevel::info;
  Observer observer_;
};

}  // namespace topograd::runtime::hybrid
