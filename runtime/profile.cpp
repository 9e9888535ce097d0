// Collects times of kernels and passes, and brings a device's clock to the host's.
#include "profile.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace topograd::runtime {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// The midpoint of the bounds of a device's clock is not taken further from the lower one: a host
/// that asks late has a high upper bound, while few submissions wait so long to begin.
constexpr std::int64_t kLongestStart = 100'000;  // ns

double us_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

}  // namespace

Profile::Profile() : id_(next_id()), began_(Clock::now()), watch_began_(began_), last_(began_) {
  row(TimedWork::rest, "solver");
}

Profile::Use::Use(Profile* profile)
    : before_(std::exchange(here_, profile)), watching_before_(std::exchange(watching_, nullptr)) {}

Profile::Use::~Use() {
  here_ = before_;
  watching_ = watching_before_;
}

Profile::Watch::Watch() : profile_(watching_ == nullptr ? here_ : nullptr) {
  if (profile_ == nullptr) return;
  profile_->begin_watch();
  watching_ = profile_;
}

Profile::Watch::~Watch() {
  if (profile_ == nullptr) return;
  profile_->end_watch();
  watching_ = nullptr;
}

void Profile::begin_watch() {
  watch_began_ = last_ = Clock::now();
  open_.assign(1, {.row = 0, .begin = last_});
}

void Profile::end_watch() {
  // After a failure nobody waits for what may never end.
  if (std::uncaught_exceptions() > 0) pending_.clear();
  try {
    settle(true);
  } catch (const std::exception&) {
    pending_.clear();
    set_note("the device failed: the last times of its kernels are missing");
  }
  const Clock::time_point now = Clock::now();
  attribute(now);
  device_may_run_ = false;
  take_overlap();
  watched_us_ += us_of(std::chrono::nanoseconds(now - watch_began_).count());
  rows_[0].calls = 1;
  open_.clear();
}

std::uint32_t Profile::row(TimedWork work, const char* what, std::string_view prefix,
                           const ir::Topology* topology) {
  for (std::uint32_t k = 0; k < keys_.size(); ++k) {
    const Key& key = keys_[k];
    if (key.what == what && key.topology == topology && key.work == work && key.prefix == prefix)
      return k;
  }
  // Rows of kernels are between those of the host: their keys are never found.
  keys_.resize(rows_.size(),
               {.work = TimedWork::device, .what = nullptr, .topology = nullptr, .prefix = {}});
  keys_.push_back({work, what, topology, std::string(prefix)});
  rows_.push_back({.name = (prefix.empty() ? "" : std::string(prefix) + "_") + what,
                   .topology = topology == nullptr ? "" : to_string(topology->hash),
                   .work = work});
  return static_cast<std::uint32_t>(rows_.size() - 1);
}

std::uint32_t Profile::kernel_row(std::string_view name, std::string_view topology) {
  std::string key(name);
  key.append(1, '\n').append(topology);
  const auto [found, is_new] =
      kernels_.try_emplace(std::move(key), static_cast<std::uint32_t>(rows_.size()));
  if (is_new) {
    rows_.push_back({.name = std::string(name), .topology = std::string(topology)});
  }
  return found->second;
}

std::int64_t Profile::since_began(Clock::time_point time) const {
  return std::chrono::nanoseconds(time - began_).count();
}

void Profile::attribute(Clock::time_point now) {
  const Clock::time_point before = std::exchange(last_, now);
  if (open_.empty()) return;
  const std::uint32_t row = open_.back().row;
  if (!device_may_run_) {
    rows_[row].us += us_of(std::chrono::nanoseconds(now - before).count());
    return;
  }
  Segment segment;
  segment.begin = since_began(before);
  segment.end = since_began(now);
  segment.row = row;
  if (!host_.empty() && host_.back().row == row && host_.back().end == segment.begin) {
    host_.back().end = segment.end;
  } else {
    host_.push_back(segment);
  }
}

void Profile::add_event(std::uint32_t row, std::int64_t begin, std::int64_t end) {
  if (events_.size() >= kMostEvents) {
    ++events_left_out_;
    return;
  }
  events_.push_back({.row = row, .begin_us = us_of(begin), .us = us_of(end - begin)});
}

void Profile::enter(std::uint32_t row, std::uint64_t bytes) {
  const Clock::time_point now = Clock::now();
  attribute(now);
  open_.push_back({.row = row, .begin = now});
  rows_[row].bytes += bytes;
}

void Profile::leave() {
  const Clock::time_point now = Clock::now();
  attribute(now);
  if (open_.size() < 2) return;
  const Open pass = open_.back();
  open_.pop_back();
  const std::int64_t whole = std::chrono::nanoseconds(now - pass.begin).count();
  open_.back().inside_ns += whole;
  KernelTime& row = rows_[pass.row];
  ++row.calls;
  row.longest_us = std::max(row.longest_us, us_of(whole - pass.inside_ns));
  const std::int64_t begin = since_began(pass.begin);
  add_event(pass.row, begin, begin + whole);
}

Profile::Clock::time_point Profile::will_submit() {
  const Clock::time_point now = Clock::now();
  attribute(now);
  device_may_run_ = true;
  return now;
}

void Profile::settle(bool wait) {
  if (std::exchange(settling_, true)) return;
  struct Guard {
    bool& flag;
    ~Guard() { flag = false; }
  } const guard{settling_};
  while (!pending_.empty() && pending_.front()(wait)) pending_.pop_front();
  if (!pending_.empty() || !device_may_run_) return;
  attribute(Clock::now());
  device_may_run_ = false;
  take_overlap();
}

std::int64_t Profile::unwrapped(DeviceClock& device, const Ticks& clock, std::uint64_t ticks) {
  if (!std::exchange(device.known, true)) device.last = ticks;
  const std::uint64_t ahead = (ticks - device.last) & clock.mask;
  const std::uint64_t behind = (device.last - ticks) & clock.mask;
  device.last = ticks;
  const double moved = ahead <= behind ? static_cast<double>(ahead) : -static_cast<double>(behind);
  return device.ns += static_cast<std::int64_t>(moved * clock.ns);
}

void Profile::ran(const Ticks& clock, Clock::time_point submitted, std::uint64_t begin,
                  std::span<const Stamped> commands) {
  if (commands.empty()) return;
  const bool is_new = !clocks_.contains(clock.device);
  DeviceClock& device = clocks_[clock.device];
  const std::int64_t first = unwrapped(device, clock, begin);
  std::vector<std::int64_t> ends;
  ends.reserve(commands.size());
  for (const Stamped& command : commands) ends.push_back(unwrapped(device, clock, command.ticks));
  const std::int64_t low = since_began(submitted) - first;
  const std::int64_t high = since_began(Clock::now()) - ends.back();
  device.low = is_new ? low : std::max(device.low, low);
  device.high = is_new ? high : std::min(device.high, high);
  if (device.low > device.high) {  // the clocks have drifted apart
    device.low = low;
    device.high = std::max(low, high);
  }
  const std::int64_t offset = device.low + std::min((device.high - device.low) / 2, kLongestStart);
  std::int64_t from = first;
  for (std::size_t k = 0; k < commands.size(); ++k) {
    const std::int64_t end = std::max(from, ends[k]);
    KernelTime& row = rows_[commands[k].row];
    const double us = us_of(end - from);
    ++row.calls;
    row.us += us;
    row.longest_us = std::max(row.longest_us, us);
    row.bytes += commands[k].bytes;
    add_event(commands[k].row, from + offset, end + offset);
    from = end;
  }
  Interval busy;
  busy.begin = first + offset;
  busy.end = from + offset;
  device_.push_back(busy);
}

void Profile::take_overlap() {
  std::size_t next = 0;
  for (const Segment& segment : host_) {
    std::int64_t alone = segment.end - segment.begin;
    while (next < device_.size() && device_[next].end <= segment.begin) ++next;
    for (std::size_t k = next; k < device_.size() && device_[k].begin < segment.end; ++k) {
      alone -= std::max<std::int64_t>(
          0, std::min(segment.end, device_[k].end) - std::max(segment.begin, device_[k].begin));
    }
    rows_[segment.row].us += us_of(std::max<std::int64_t>(alone, 0));
  }
  host_.clear();
  device_.clear();
}

}  // namespace topograd::runtime
