// How much of a solve goes into one submission.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace topograd::runtime::vulkan {

/// Lists of iterations that one submission may take, by how long those of the last solve took:
/// a desktop's watchdog ends a submission of some seconds, and its display stands still meanwhile.
class SubmissionSize {
 public:
  /// Longest submission, in time on the device.
  static constexpr std::chrono::duration<double> kLongest = std::chrono::milliseconds(250);

  /// `lists` of them, at least one, and what was queued with them took so long.
  void measured(std::size_t lists, std::chrono::duration<double> took) {
    each_ = took / static_cast<double>(std::max<std::size_t>(lists, 1));
  }
  /// Lists that fit one submission, at least 1.
  std::size_t lists() const {
    constexpr double kMost = 1e6;  // also for a device too fast to be measured
    const double fit = each_.count() > 0 ? kLongest / each_ : kMost;
    return static_cast<std::size_t>(std::clamp(fit, 1.0, kMost));
  }

 private:
  std::chrono::duration<double> each_{kLongest / 8};  // nobody knows
};

}  // namespace topograd::runtime::vulkan
