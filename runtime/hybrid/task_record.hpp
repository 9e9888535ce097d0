// The record of an executor's tasks: counters, histograms, a trace over time, log and observer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "routing/decision.hpp"
#include "task.hpp"

namespace topograd::runtime::hybrid {

/// Counts of values up to fixed bounds, each twice the one before.
class Histogram {
 public:
  static constexpr int kBuckets = 32;
  Histogram() = default;
  /// Bounds are least 2^k for k < kBuckets.
  explicit Histogram(double least) : least_(least) {}

  /// Cost: some ns.
  void add(double value);
  double bound(int bucket) const;
  /// Number of values up to bound(bucket).
  std::uint64_t up_to(int bucket) const;
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  double least_ = 1;
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// Statistics of tasks of one operation on one device.
struct OperationStatistics {
  std::uint64_t tasks = 0;      ///< successful there
  std::uint64_t failures = 0;   ///< failed there
  std::uint64_t fallbacks = 0;  ///< failures that the CPU finished
  std::uint64_t items = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0, cache_hits = 0;
  double seconds = 0;
  std::uint64_t timed_items = 0;  ///< items of the timed tasks
  Histogram duration{1e-6};       ///< seconds
  Histogram batch;                ///< items

  double success_rate() const {
    const double all = static_cast<double>(tasks + failures);
    return all > 0 ? static_cast<double>(tasks) / all : 1;
  }
  double items_per_second() const {
    return seconds > 0 ? static_cast<double>(timed_items) / seconds : 0;
  }
};

/// Orders pairs of names, also against pairs of views.
struct NamesLess {
  using is_transparent = void;
  using Views = std::pair<std::string_view, std::string_view>;
  bool operator()(const Views& a, const Views& b) const { return a < b; }
};

/// Counters per task. Thread-safe.
class Telemetry {
 public:
  /// Largest number of operations with counters of their own; later ones count as kOther.
  static constexpr std::size_t kMostOperations = 256;
  static constexpr std::string_view kOther = "other";

  using ByOperation = std::map<std::pair<std::string, std::string>, OperationStatistics, NamesLess>;
  struct Counts {
    ByOperation operations;                                           ///< by operation and device
    std::map<std::pair<std::string, Reason>, std::uint64_t> routing;  ///< by device, reason
    std::map<std::pair<std::string, std::string>, std::uint64_t> fallbacks;  ///< by device, error
    std::uint64_t coalesced_tasks = 0, coalesced_dispatches = 0, split_tasks = 0;
    std::uint64_t state_loads = 0, state_rejected = 0, state_writes = 0, state_write_failures = 0;
  };

  void routed(const std::string& device, Reason reason);
  void ran(std::string_view operation, const std::string& device, const Outcome& outcome,
           std::uint64_t items);
  /// Counts results that were read some time after the task.
  void read_back(std::string_view operation, const std::string& device, std::uint64_t bytes);
  void fell_back(std::string_view operation, const std::string& device, ErrorCode error);
  void coalesced(std::uint64_t tasks);
  void split();
  void state_loaded(bool accepted);
  void state_written(bool success);

  Counts counts() const;
  OperationStatistics statistics(std::string_view operation, std::string_view device) const;

 private:
  OperationStatistics& of(std::string_view operation, std::string_view device);

  mutable std::mutex mutex_;
  Counts counts_;
  std::set<std::string, std::less<>> names_;  // of operations with counters of their own
};

/// One bar in a lane, or a mark if it has no duration.
struct TraceEvent {
  std::string name;
  std::string lane;     ///< "cpu", or the device
  double start_us = 0;  ///< of one clock for all lanes
  double us = 0;
  std::vector<std::pair<std::string, std::string>> arguments;  ///< shown when selected
  bool on_device = false;
};

/// Thread-safe.
class TraceLog {
 public:
  /// Keeps the last `bound` events.
  explicit TraceLog(std::uint64_t bound) : bound_(bound) {}

  bool on() const { return bound_ > 0; }
  void add(TraceEvent event);
  std::vector<TraceEvent> events() const;

 private:
  const std::uint64_t bound_;
  mutable std::mutex mutex_;
  std::deque<TraceEvent> events_;
};

/// Events as JSON. Time starts at the first event. Overlapping bars of one lane that do not nest
/// are put on several rows of it.
///
/// Source: Trace Event Format, Google 2016, "complete" and "metadata" events.
std::string to_chrome_trace(std::vector<TraceEvent> events);

enum class LogLevel { trace, info, warning };
using Log = std::function<void(LogLevel, const std::string&)>;

/// Called after each successful task, including outside work (OutsideWork::record() and ran()),
/// on the thread that ran it, with operation, items and statistics.
using Observer = std::function<void(std::string_view, std::uint64_t, const ExecutionStats&)>;

/// Thread-safe, but log and observer are set before the first task. Targets are those of the list.
class TaskRecord {
 public:
  /// `devices` outlives it.
  TaskRecord(const HybridOptions& options, const DeviceList& devices)
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
