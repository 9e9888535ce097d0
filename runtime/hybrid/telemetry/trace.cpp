// Lanes, rows and the JSON of traces.
#include "trace.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace topograd::runtime::hybrid {
namespace {

using Json = nlohmann::ordered_json;

// Smaller differences are rounding.
constexpr double kNothingUs = 1e-3;

/// Open bars of one row, each nested in the one before.
using Row = std::vector<double>;  // their ends

/// The first row of a lane in which the bar nests.
std::size_t place(std::vector<Row>& rows, const TraceEvent& event) {
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
    const std::size_t row = place(lanes[event.lane], event);
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

}  // namespace topograd::runtime::hybrid
