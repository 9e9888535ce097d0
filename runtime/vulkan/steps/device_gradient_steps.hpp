// Steps along gradients on a device: those by rules and those from a history.
#pragma once

#include "device_descent.hpp"
#include "device_rules.hpp"
#include "point_moves.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace topograd::runtime::vulkan {

/// Within bounds and on manifolds there are none.
class DeviceGradientSteps final : public GradientSteps {
 public:
  ///   follow  changes to other kernels where these are there; called before the first step
  ///
  /// All of these outlive it.
  DeviceGradientSteps(Context& context, Recorder& recorder, const DeviceModel& problem,
                      const StepVectors& v, TermSums& sums, AcceptedPoints& points,
                      const PointMoves& moves, std::function<void()> follow)
      : moves_(moves),
        follow_(std::move(follow)),
        rules_(context, recorder, problem, v, sums, follow_),
        make_descent_([&context, &recorder, &problem, &v, &sums, &points] {
          return std::make_unique<DeviceDescent>(context, recorder, problem, v, sums, points);
        }),
        descent_(recorder.kernels) {}

  FirstOrderSteps* first_order_steps(bool wait) override {
    if (moves_.shaped()) return nullptr;
    follow_();
    return wait || rules_.prepare() ? &rules_ : nullptr;
  }
  DescentSteps* descent_steps(bool wait) override {
    if (moves_.shaped()) return nullptr;
    follow_();
    if (!*descent_) *descent_ = make_descent_();
    return wait || (*descent_)->prepare() ? descent_->get() : nullptr;
  }

 private:
  const PointMoves& moves_;
  std::function<void()> follow_;
  DeviceRules rules_;
  std::function<std::unique_ptr<DeviceDescent>()> make_descent_;
  Derived<std::unique_ptr<DeviceDescent>> descent_;
};

}  // namespace topograd::runtime::vulkan
