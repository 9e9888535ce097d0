// Damped steps of several processes.
#pragma once

#include "rank_calls.hpp"

#include "../runtime/engine/engine.hpp"

#include <span>

namespace topograd::distributed {

/// Steps of the whole model by the engines of all parts. linearize(), try_step() by conjugate
/// gradients and accept() exchange ghosts and sums by chunk alone; points and steps are joined.
/// They go on if a device fails.
class DistributedSteps final : public runtime::DampedSteps,
                               public runtime::StepLengths,
                               public runtime::LastStep {
 public:
  ///   calls  outlive the steps
  explicit DistributedSteps(RankCalls& calls) : calls_(calls) {}

  void begin_solve() override;
  /// The state of the whole: the bytes do not depend on the division.
  void transfer(ir::StateRecord& record) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override;
  runtime::PreconditionerUse preconditioner() const override;
  runtime::NormalMatrixUse normal_matrix() const override;

  runtime::StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override;

 private:
  template <class Step>
  runtime::StepReport step(const Step& step);
  void restore(ir::StateRecord& record);
  void keep_scaling();

  RankCalls& calls_;
};

}  // namespace topograd::distributed
