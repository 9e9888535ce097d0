// A trace of tasks over time, in Chrome's trace-event format (Perfetto, chrome://tracing).
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

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

}  // namespace topograd::runtime::hybrid
