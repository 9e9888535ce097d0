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
#include <string>

namespace topograd::view {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
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
      : live_(&live), random_(seed), size_(diagonal_of(live.start())) {}

  void post(double time, std::uint64_t serial) {
    constexpr double kPeriod = 0.5;
    constexpr std::size_t kHandles = 8;
    const auto period = static_cast<std::int64_t>(time / kPeriod);
    if (period != period_) {
      period_ = period;
      if (open_.size() >= kHandles) {
        live_->post(Release{open_.front()});
        open_.pop_front();
      }
      const auto vertex = static_cast<std::uint32_t>(random_() % live_->subject().points.size());
      constexpr double kRadius = 0.05;
      open_.push_back(++last_);
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
  LiveSolver* live_;
  std::mt19937_64 random_;
  double size_;
  std::int64_t period_ = -1;
  HandleId last_ = 2'000'000;
  std::deque<HandleId> open_;
  Point from_ = {}, to_ = {};
};

void update(LeastMemory& least) {
  const auto keep = [](std::uint64_t& kept, std::uint64_t seen) {
    kept = kept == 0 ? seen : std::min(kept, seen);
  };
  keep(least.resident, platform::resident_bytes());
  keep(least.heap, platform::heap_bytes());
}

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

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(values.size() - 1)))];
}

Measured measure(LiveSolver& live, const Script& script, const MeasureOptions& options) {
  // The first solve plans and compiles.
  constexpr double kPatience = 60, kFirstPatience = 600, kLook = 0.5;
  std::shared_ptr<const Frame> frame;
  const auto called = Clock::now();
  while (frame == nullptr && seconds_since(called) < kFirstPatience && !Interrupts::came() &&
         live.state()->message.empty())
    frame = live.wait(0, kLook);
  if (frame == nullptr)
    throw Error(ErrorCode::Internal, "view: no frame came; " + live.state()->message);
  Drags drags(live, script);
  std::optional<RandomDrags> random;
  if (options.random) random.emplace(live, *options.random);
  Client client(live);
  Measured out;
  struct Posted {
    std::uint64_t serial, newest;  // frame when it was posted
    Clock::time_point time;
  };
  std::deque<Posted> posted;
  const auto begin = Clock::now();
  auto last_frame = begin, counted_from = begin;
  bool counts = false;
  std::uint64_t serial = 0, first_number = 0, compiled_before = 0;
  const double period = 1 / options.drags_per_second;
  constexpr double kLookEvery = 0.1;
  double next_look = 0;
  for (double time = 0; time < options.warm_up_seconds + options.seconds && !Interrupts::came();
       time = seconds_since(begin)) {
    if (!counts && time >= options.warm_up_seconds) {
      counts = true;
      counted_from = last_frame = Clock::now();
      first_number = frame->number;
      compiled_before = frame->compiled;
      out.bytes_before = platform::resident_bytes();
    }
    if (const double counted = time - options.warm_up_seconds; counts && time >= next_look) {
      next_look = time + kLookEvery;
      update(out.thirds[std::min(static_cast<std::size_t>(3 * counted / options.seconds),
                                 out.thirds.size() - 1)]);
    }
    if (time >= static_cast<double>(serial) * period) {
      // After a stall there are no drags to catch up with.
      serial = std::max(serial + 1, static_cast<std::uint64_t>(time / period));
      if (random)
        random->post(time, serial);
      else
        drags.post(std::fmod(time, script.seconds), serial);
      posted.push_back({serial, frame->number, Clock::now()});
      out.drags += counts;
    }
    const double until_drag = static_cast<double>(serial) * period - seconds_since(begin);
    const std::shared_ptr<const Frame> next =
        live.wait(frame->number, std::clamp(until_drag, 0.0, period));
    if (next == nullptr) {
      if (seconds_since(last_frame) > kPatience)
        throw Error(ErrorCode::Internal, "view: no frame came; " + live.state()->message);
      continue;
    }
    const auto now = Clock::now();
    const std::size_t bytes = client.take(*next);
    while (!posted.empty() && posted.front().serial < next->drag) posted.pop_front();
    if (counts) {
      out.steps += static_cast<std::uint64_t>(next->steps);
      out.nonfinite += !all_finite(*next);
    }
    if (counts && options.lists) {
      out.frame_ms.push_back(1e3 * std::chrono::duration<double>(now - last_frame).count());
      out.encode_ms.push_back(1e3 * seconds_since(now));
      out.frame_bytes.push_back(static_cast<double>(bytes));
      if (!posted.empty() && posted.front().serial == next->drag) {
        out.drag_to_frame_ms.push_back(
            1e3 * std::chrono::duration<double>(now - posted.front().time).count());
        out.drag_to_frame.push_back(static_cast<double>(next->number - posted.front().newest));
      }
    }
    if (!posted.empty() && posted.front().serial == next->drag) posted.pop_front();
    last_frame = now;
    frame = next;
  }
  out.seconds = seconds_since(counted_from);
  out.solves = counts ? frame->number - first_number : 0;
  out.compiled = frame->compiled - compiled_before;
  out.bytes_after = platform::resident_bytes();
  out.last = frame;
  return out;
}

}  // namespace topograd::view
