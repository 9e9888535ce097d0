// Steps along gradients on a device: those by rules and those from a history.
#pragma once

#include "device_descent.hpp"
#include "device_rules.hpp"
#include "point_moves.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace topograd::runtime::vulkan {

/// Problems with bounds or manifolds have none.
class DeviceGradientSteps final : public GradientSteps, Part {
 public:
  ///   follow  changes to other kernels where these are there; called before the first step
  ///
  /// All of these outlive it.
  DeviceGradientSteps(const Part& part, TermSums& sums, AcceptedPoints& points,
                      const PointMoves& moves, std::function<void()> follow)
      : Part(part),
        sums_(sums),
        points_(points),
        moves_(moves),
        follow_(std::move(follow)),
        rules_(part, sums, follow_) {}

  FirstOrderSteps* first_order_steps(bool wait) override {
    if (moves_.has_bounds_or_manifolds()) return nullptr;
    follow_();
    return wait || rules_.prepare() ? &rules_ : nullptr;
  }
  DescentSteps* descent_steps(bool wait) override {
    if (moves_.has_bounds_or_manifolds()) return nullptr;
    follow_();
    if (!*descent_)
      *descent_ = std::make_unique<DeviceDescent>(static_cast<const Part&>(*this), sums_, points_);
    return wait || (*descent_)->prepare() ? descent_->get() : nullptr;
  }

 private:
  TermSums& sums_;
  AcceptedPoints& points_;
  const PointMoves& moves_;
  std::function<void()> follow_;
  DeviceRules rules_;
  Derived<std::unique_ptr<DeviceDescent>> descent_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
