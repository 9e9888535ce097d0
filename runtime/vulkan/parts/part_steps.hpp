// Damped steps on a device that has a part of the model.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "part_gradients.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace topograd::runtime::vulkan {

/// Steps that all parts make together; each call is collective. Reports have the same bits for any
/// division of the model among devices of one kind. A call throws after the last of its exchanges.
class PartSteps final : public DampedSteps, public StepLengths, public LastStep, Part {
 public:
  /// All of these outlive it.
  PartSteps(const Part& part, const std::shared_ptr<const ModelPart>& of, TermRows& rows,
            TermSums& sums);

  void begin_solve() override { is_scaled_ = false; }
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { problem_.read_point(v_.trial, x); }
  void accept() override;
  PreconditionerUse preconditioner() const override {
    return {.asked_for = true, .why = {PreconditionerReason::asked_for}};
  }

  StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override { problem_.read(v_.step, delta); }

  /// As Engine::cost(), and Guards::trial_cost().
  double cost();
  double trial_cost();
  /// The point is another one.
  void moved() { moved_length_ = 0; }

 private:
  bool bounded() const { return !problem_.model().lower.empty(); }
  void make_lists();
  void record_linearize(CommandList& list);
  void record_trial(CommandList& list);
  void record_mask(CommandList& list);
  void record_scale(CommandList& list, const StepRequest& request);
  void scale(const StepRequest& request);
  /// The step and its ghosts are those of the owners.
  void share_step();
  double cost_by(const Recorded& list, ChunkColumns& columns);
  template <class T>
  void transfer_scale(ir::StateRecord& record);
  /// Tells a move what its sums are for. Engines on CPUs exchange them one by one.
  enum class Move { solved, given, rescaled };
  /// Moves to the trial point of that length.
  StepReport move(double length, Move move);
  StepReport report(Move move);
  StepReport report_with_cpus(Move move);

  PartWork work_;
  ChunkSums chunks_;
  PartGhosts ghosts_;
  PartCosts costs_;
  TermSums& sums_;
  PartGradients gradients_;
  ChunkColumns point_figures_, trial_figures_, point_cost_, trial_cost_;
  Buffer lower_, upper_;  // if there are bounds
  Recorded linearize_, trial_, mask_, unmask_, accept_, cost_list_, trial_cost_list_;
  bool is_scaled_ = false;
  double moved_length_ = 0;  // of the step that led to the point, over that of δ; 0: none did
};

}  // namespace topograd::runtime::vulkan
