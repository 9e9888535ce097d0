// Damped steps of several processes.
#pragma once

#include "rank_part.hpp"

#include "../runtime/engine/engine.hpp"

#include <memory>
#include <span>

namespace topograd::distributed {

/// Steps of the whole model by the engines of all parts. linearize(), try_step() by conjugate
/// gradients and accept() exchange ghosts and sums by chunk alone; points and steps are joined.
class DistributedSteps final : public runtime::DampedSteps,
                               public runtime::StepLengths,
                               public runtime::LastStep {
 public:
  ///   part  outlives the steps; the part may be replaced
  explicit DistributedSteps(const std::unique_ptr<RankPart>& part) : part_(part) {}

  void begin_solve() override { part_->steps().begin_solve(); }
  /// The state of the whole: the bytes do not depend on the division.
  void transfer(ir::StateRecord& record) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override { part_->steps().accept(); }
  runtime::PreconditionerUse preconditioner() const override;
  runtime::NormalMatrixUse normal_matrix() const override;

  runtime::StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override;

 private:
  template <class F>
  auto together(const F& f) const {
    return distributed::together(part_->ranks(), f);
  }

  const std::unique_ptr<RankPart>& part_;
};

}  // namespace topograd::distributed
