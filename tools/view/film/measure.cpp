// Drags and counts frames.
#include "measure.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../view/protocol.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace topograd::view {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

bool all_finite(const Frame& frame) {
  return std::isfinite(frame.cost) &&
         std::ranges::all_of(frame.positions, [](double x) { return std::isfinite(x); });
}

/// Random drags: every half second another point, pulled anywhere within half the size; the last
/// eight handles stay.
class RandomDrags {
 public:
  RandomDrags(LiveSolver& live, std::uint64_t seed)
      : live_(&live), random_(seed), size_(diagonal_of(live.start())) {
    for (const auto& [id, handle] : live.state()->handles)
      first_.insert(handle.vertices.begin(), handle.vertices.end());
  }

  void post(double time, std::uint64_t serial) {
    constexpr double kPeriod = 0.5;
    constexpr std::size_t kHandles = 8;
    const auto period = static_cast<std::int64_t>(time / kPeriod);
    if (period != period_) {
      period_ = period;
      if (open_.size() >= kHandles) {
        live_->post(Release{open_.front().id});
        open_.pop_front();
      }
      const std::uint32_t vertex = free_vertex();
      open_.push_back({++last_, vertex});
      live_->post(Grab{last_, vertex, kRadius * size_});
      for (std::size_t k = 0; k < 3; ++k) {
        from_[k] = live_->start()[3 * std::size_t{vertex} + k];
        std::uniform_real_distribution<double> anywhere(-size_ / 2, size_ / 2);
        to_[k] = from_[k] + anywhere(random_);
      }
    }
    const double share = time / kPeriod - static_cast<double>(period);
    Point position{};
    for (std::size_t k = 0; k < 3; ++k) position[k] = from_[k] + share * (to_[k] - from_[k]);
    live_->post(Drag{last_, position, serial, false});
  }

 private:
  static constexpr double kRadius = 0.05;  // of handles, in sizes
  struct Open {
    HandleId id;
    std::uint32_t vertex;
  };

  /// A random vertex that belongs to no handle, if some tries find one.
  std::uint32_t free_vertex() {
    constexpr int kTries = 1000;
    std::uint32_t vertex = 0;
    for (int k = 0; k < kTries; ++k) {
      vertex = static_cast<std::uint32_t>(random_() % live_->subject().points.size());
      if (!first_.contains(vertex) &&
          std::ranges::none_of(open_, [&](const Open& o) { return is_near(o.vertex, vertex); }))
        break;
    }
    return vertex;
  }
  bool is_near(std::uint32_t a, std::uint32_t b) const {
    const double *p = &live_->start()[3 * std::size_t{a}], *q = &live_->start()[3 * std::size_t{b}];
    return std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]) <= kRadius * size_;
  }

  LiveSolver* live_;
  std::mt19937_64 random_;
  double size_;
  std::set<std::uint32_t> first_;  // vertices of the handles of the start
  std::int64_t period_ = -1;
  HandleId last_ = 2'000'000;
  std::deque<Open> open_;
  Point from_ = {}, to_ = {};
};

/// Looks at the memory of the process ten times a second.
class MemoryLook {
 public:
  MemoryLook(Measured& out, const MeasureOptions& options)
      : out_(&out), seconds_(options.seconds) {}

  ///   time  seconds since the warm-up; negative before its end
  void look(double time) {
    if (time < next_) return;
    constexpr double kPeriod = 0.1;
    next_ = time + kPeriod;
    const std::size_t thirds = out_->thirds.size();
    const auto third = static_cast<std::size_t>(static_cast<double>(thirds) * time / seconds_);
    LeastMemory& least = out_->thirds[std::min(third, thirds - 1)];
    keep(least.resident, platform::resident_bytes());
    keep(least.heap, platform::heap_bytes());
  }

 private:
  static void keep(std::uint64_t& least, std::uint64_t seen) {
    least = least == 0 ? seen : std::min(least, seen);
  }

  Measured* out_;
  double seconds_, next_ = 0;
};

/// Drags that were posted, and that no frame had yet.
class PostedDrags {
 public:
  struct Drag {
    std::uint64_t serial, newest;  ///< newest: number of the frame when it was posted
    Clock::time_point time;
  };
  void add(std::uint64_t serial, std::uint64_t newest) {
    drags_.push_back({serial, newest, Clock::now()});
  }
  /// The drag with this number, if no frame before had it.
  std::optional<Drag> take(std::uint64_t serial) {
    while (!drags_.empty() && drags_.front().serial < serial) drags_.pop_front();
    if (drags_.empty() || drags_.front().serial != serial) return std::nullopt;
    const Drag found = drags_.front();
    drags_.pop_front();
    return found;
  }

 private:
  std::deque<Drag> drags_;
};

/// The frames of a live solver as a client sees them.
class Client {
 public:
  explicit Client(const LiveSolver& live) : grid_(grid_for(live.start())) {}

  /// Encodes a frame; returns its bytes.
  std::size_t take(const Frame& frame) {
    auto now = std::make_shared<const Quantised>(quantise(frame, has_ ? has_->grid : grid_));
    const std::size_t bytes = frame_bytes(frame, *now, has_.get()).size();
    has_ = std::move(now);
    return bytes;
  }

 private:
  Grid grid_;
  std::shared_ptr<const Quantised> has_;
};

void list_latency(Measured& out, const PostedDrags::Drag& drag, std::uint64_t frame,
                  Clock::time_point now) {
  out.drag_to_frame_ms.push_back(milliseconds(now - drag.time));
  out.drag_to_frame.push_back(static_cast<double>(frame - drag.newest));
}

constexpr double kPatience = 60;

[[noreturn]] void fail_without_frame(const LiveSolver& live) {
  throw Error(ErrorCode::Internal, "view: no frame came; " + live.state()->message);
}

/// The frame of the first solve, which plans and compiles.
std::shared_ptr<const Frame> first_frame(const LiveSolver& live) {
  constexpr double kFirstPatience = 600, kLook = 0.5;
  const auto called = Clock::now();
  while (seconds_since(called) < kFirstPatience && !Interrupts::came() &&
         live.state()->message.empty())
    if (std::shared_ptr<const Frame> frame = live.wait(0, kLook)) return frame;
  fail_without_frame(live);
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(values.size() - 1)))];
}

Measured measure(LiveSolver& live, const Script& script, const MeasureOptions& options) {
  std::shared_ptr<const Frame> frame = first_frame(live);
  Drags drags(live, script);
  std::optional<RandomDrags> random;
  if (options.random) random.emplace(live, *options.random);
  Client client(live);
  Measured out;
  PostedDrags posted;
  const auto begin = Clock::now();
  auto last_frame = begin, counted_from = begin;
  bool counts = false;
  std::uint64_t serial = 0, first_number = frame->number, compiled_before = frame->compiled;
  const double period = 1 / options.drags_per_second;
  MemoryLook memory(out, options);
  for (double time = 0; time < options.warm_up_seconds + options.seconds && !Interrupts::came();
       time = seconds_since(begin)) {
    if (!counts && time >= options.warm_up_seconds) {
      counts = true;
      counted_from = last_frame = Clock::now();
      first_number = frame->number;
      compiled_before = frame->compiled;
      out.bytes_before = platform::resident_bytes();
    }
    memory.look(time - options.warm_up_seconds);
    if (time >= static_cast<double>(serial) * period) {
      // After a stall there are no drags to catch up with.
      serial = std::max(serial + 1, static_cast<std::uint64_t>(time / period));
      if (random)
        random->post(time, serial);
      else
        drags.post(std::fmod(time, script.seconds), serial);
      posted.add(serial, frame->number);
      out.drags += counts;
    }
    const double until_drag = static_cast<double>(serial) * period - seconds_since(begin);
    std::shared_ptr<const Frame> next =
        live.wait(frame->number, std::clamp(until_drag, 0.0, period));
    if (next == nullptr) {
      if (seconds_since(last_frame) > kPatience) fail_without_frame(live);
      continue;
    }
    const auto now = Clock::now();
    const std::size_t bytes = client.take(*next);
    const std::optional<PostedDrags::Drag> drag = posted.take(next->drag);
    if (counts) {
      out.steps += static_cast<std::uint64_t>(next->steps);
      out.nonfinite += !all_finite(*next);
    }
    if (counts && options.lists) {
      out.frame_ms.push_back(milliseconds(now - last_frame));
      out.encode_ms.push_back(1e3 * seconds_since(now));
      out.frame_bytes.push_back(static_cast<double>(bytes));
      if (drag) list_latency(out, *drag, next->number, now);
    }
    last_frame = now;
    frame = std::move(next);
  }
  out.seconds = seconds_since(counted_from);
  out.solves = frame->number - first_number;
  out.compiled = frame->compiled - compiled_before;
  out.bytes_after = platform::resident_bytes();
  out.last = frame;
  return out;
}

}  // namespace topograd::view
