// Counters and histograms, lanes and rows of traces, names of targets, and texts of the log.
#include "task_record.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "routing/scheduler.hpp"

namespace topograd::runtime::hybrid {
namespace {

using Json = nlohmann::ordered_json;

// Smaller differences are rounding.
constexpr double kNothingUs = 1e-3;

/// Open bars of one row, each nested in the one before.
using Row = std::vector<double>;  // their ends

/// The first row of a lane in which the bar nests.
std::size_t row_of(std::vector<Row>& rows, const TraceEvent& event) {
  const double end = event.start_us + event.us;
  for (std::size_t k = 0;; ++k) {
    if (k == rows.size()) rows.emplace_back();
    Row& row = rows[k];
    while (!row.empty() && row.back() <= event.start_us + kNothingUs) row.pop_back();
    if (!row.empty() && end > row.back() + kNothingUs) continue;
    row.push_back(end);
    return k;
  }
}

}  // namespace

double Histogram::bound(int bucket) const { return std::ldexp(least_, bucket); }

void Histogram::add(double value) {
  ++count_;
  sum_ += value;
  static_assert(kBuckets == 32);
  if (value > least_ * 0x1p31) return;
  // The least k with value <= least 2^k.
  int k = 0;
  if (value > least_) {
    const double mantissa = std::frexp(value / least_, &k);
    if (mantissa == 0.5) --k;
  }
  ++counts_[static_cast<std::size_t>(k)];
}

std::uint64_t Histogram::up_to(int bucket) const {
  std::uint64_t sum = 0;
  for (int k = 0; k <= bucket; ++k) sum += counts_[static_cast<std::size_t>(k)];
  return sum;
}

OperationStatistics& Telemetry::of(std::string_view operation, std::string_view device) {
  const auto found = counts_.operations.find(NamesLess::Views(operation, device));
  if (found != counts_.operations.end()) return found->second;
  if (!names_.contains(operation)) {
    if (names_.size() >= kMostOperations) operation = kOther;
    names_.emplace(operation);
  }
  return counts_.operations[{std::string(operation), std::string(device)}];
}

void Telemetry::routed(const std::string& device, Reason reason) {
  const std::lock_guard lock(mutex_);
  // A few rows: to search them takes less than to make a key.
  const auto found = std::ranges::find_if(counts_.routing, [&](const auto& row) {
    return row.first.second == reason && row.first.first == device;
  });
  ++(found != counts_.routing.end() ? found->second : counts_.routing[{device, reason}]);
}

void Telemetry::ran(std::string_view operation, const std::string& device, const Outcome& outcome,
                    std::uint64_t items) {
  const std::lock_guard lock(mutex_);
  OperationStatistics& s = of(operation, device);
  if (!outcome.success) {
    ++s.failures;
    return;
  }
  ++s.tasks;
  s.items += items;
  s.bytes_up += outcome.bytes_up;
  s.bytes_down += outcome.bytes_down;
  s.cache_hits += outcome.cache_hits;
  s.batch.add(static_cast<double>(items));
  if (outcome.untimed) return;
  const double seconds = outcome.times.work() * 1e-6;
  s.seconds += seconds;
  s.timed_items += items;
  s.duration.add(seconds);
}

void Telemetry::read_back(std::string_view operation, const std::string& device,
                          std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  of(operation, device).bytes_down += bytes;
}

void Telemetry::fell_back(std::string_view operation, const std::string& device, ErrorCode error) {
  const std::lock_guard lock(mutex_);
  ++of(operation, device).fallbacks;
  ++counts_.fallbacks[{device, std::string(name(error))}];
}

void Telemetry::coalesced(std::uint64_t tasks) {
  const std::lock_guard lock(mutex_);
  counts_.coalesced_tasks += tasks;
  ++counts_.coalesced_dispatches;
}

void Telemetry::split() {
  const std::lock_guard lock(mutex_);
  ++counts_.split_tasks;
}

void Telemetry::state_loaded(bool accepted) {
  const std::lock_guard lock(mutex_);
  ++(accepted ? counts_.state_loads : counts_.state_rejected);
}

void Telemetry::state_written(bool success) {
  const std::lock_guard lock(mutex_);
  ++(success ? counts_.state_writes : counts_.state_write_failures);
}

Telemetry::Counts Telemetry::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

OperationStatistics Telemetry::statistics(std::string_view operation,
                                          std::string_view device) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.operations.find(NamesLess::Views(operation, device));
  return found == counts_.operations.end() ? OperationStatistics{} : found->second;
}

void TraceLog::add(TraceEvent event) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  if (events_.size() >= bound_) events_.pop_front();
  events_.push_back(std::move(event));
}

std::vector<TraceEvent> TraceLog::events() const {
  const std::lock_guard lock(mutex_);
  return {events_.begin(), events_.end()};
}

std::string to_chrome_trace(std::vector<TraceEvent> events) {
  // Outer bars before inner ones with the same start.
  std::ranges::stable_sort(events, [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_us != b.start_us ? a.start_us < b.start_us : a.us > b.us;
  });
  const double zero = events.empty() ? 0 : events.front().start_us;
  std::map<std::string, std::vector<Row>> lanes;
  std::map<std::pair<std::string, std::size_t>, int> threads;
  Json list = Json::array();
  for (const TraceEvent& event : events) {
    const std::size_t row = row_of(lanes[event.lane], event);
    const auto [thread, is_new] =
        threads.try_emplace({event.lane, row}, static_cast<int>(threads.size()) + 1);
    if (is_new) {
      const std::string name = row == 0 ? event.lane : event.lane + " " + std::to_string(row + 1);
      list.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", thread->second},
                      {"args", {{"name", name}}}});
    }
    Json one = {{"name", event.name},
                {"cat", event.on_device ? "device" : "cpu"},
                {"ph", event.us > 0 ? "X" : "i"},
                {"ts", event.start_us - zero},
                {"pid", 1},
                {"tid", thread->second}};
    if (event.us > 0) {
      one["dur"] = event.us;
    } else {
      one["s"] = "t";
    }
    for (const auto& [name, value] : event.arguments) one["args"][name] = value;
    list.push_back(std::move(one));
  }
  return Json{{"traceEvents", std::move(list)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

void TaskRecord::set_log(Log log, LogLevel least) {
  log_ = std::move(log);
  least_level_ = least;
}

void TaskRecord::log(LogLevel level, const std::string& text) const {
  if (log_ && level >= least_level_) log_(level, text);
}

void TaskRecord::decided(std::string_view operation, const Decision& decision) {
  if (counts_) telemetry_.routed(devices_.name_of(decision.target), decision.reason);
  if (log_ && least_level_ == LogLevel::trace) {
    log(LogLevel::trace,
        std::string(operation) + " -> " + explain(decision, devices_.name_of(decision.device)));
  }
}

void TaskRecord::ran(std::string_view operation, std::size_t target, const Outcome& outcome,
                     std::uint64_t items, double end_seconds) {
  if (outcome.success && !outcome.untimed)
    trace_parts(operation, target, end_seconds, outcome.times, items);
  if (counts_) telemetry_.ran(operation, devices_.name_of(target), outcome, items);
}

/// Parts follow each other and end at the task's end.
void TaskRecord::trace_parts(std::string_view operation, std::size_t target, double end_seconds,
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

void TaskRecord::observe(std::string_view operation, std::uint64_t items,
                         const ExecutionStats& stats) const {
  if (observer_) observer_(operation, items, stats);
}

void TaskRecord::read_back(std::string_view operation, std::size_t target, std::uint64_t bytes) {
  if (counts_) telemetry_.read_back(operation, devices_.name_of(target), bytes);
}

void TaskRecord::fell_back(std::string_view operation, const std::string& device,
                           const Error& error) {
  if (counts_) telemetry_.fell_back(operation, device, error.code());
  log(LogLevel::warning, "task \"" + std::string(operation) + "\": " + device +
                             " failed, the CPU takes over: " + error.what());
}

void TaskRecord::coalesced(std::uint64_t tasks) {
  if (counts_) telemetry_.coalesced(tasks);
}

void TaskRecord::split() {
  if (counts_) telemetry_.split();
}

}  // namespace topograd::runtime::hybrid
