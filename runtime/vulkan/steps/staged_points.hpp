// Copies of points in host memory, written in turn; what a lost device leaves behind.
#pragma once

#include "../terms/device_model.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace topograd::runtime::vulkan {

struct StagedPoints {
  using Clock = std::chrono::steady_clock;

  std::array<Buffer, 2> points;
  int written = -1;                      ///< queued behind the last accept
  int arrived = -1;                      ///< known to be complete
  std::uint64_t accepted = 0;            ///< steps since the point was set
  std::array<std::uint64_t, 2> steps{};  ///< accepted steps up to each copy
  Clock::time_point last;

  /// Points up to this size are staged at every accepted step, larger ones once in the interval.
  static constexpr std::uint64_t kEveryStep = std::uint64_t{1} << 20;
  static constexpr std::chrono::seconds kInterval{1};

  bool due() const {
    return points[0].size() <= kEveryStep || written < 0 || Clock::now() - last >= kInterval;
  }
  /// The place of a copy that is queued now, of the point after `accepted` steps.
  std::size_t begin() {
    written = arrived == 0 ? 1 : 0;
    last = Clock::now();
    const auto place = static_cast<std::size_t>(written);
    steps[place] = accepted;
    return place;
  }
  /// A step was accepted that was queued before the host knew, with a copy behind it or without.
  void took(bool staged) {
    ++accepted;
    if (staged) steps[static_cast<std::size_t>(written)] = accepted;
  }
  /// The queued copy has arrived.
  void arrive() { arrived = written; }
  /// Copies of points before the next one are not of its solve.
  void forget() {
    written = arrived = -1;
    accepted = 0;
  }
  /// The last one that is complete. False, and x untouched, if there is none.
  bool read(const DeviceModel& model, std::span<double> x) const {
    if (arrived < 0) return false;
    model.read_staged(points[static_cast<std::size_t>(arrived)], x);
    return true;
  }
  std::uint64_t steps_since_arrived() const {
    return arrived < 0 ? accepted : accepted - steps[static_cast<std::size_t>(arrived)];
  }
};

}  // namespace topograd::runtime::vulkan
