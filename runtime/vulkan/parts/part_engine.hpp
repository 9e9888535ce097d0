// The engine of a part of a model on a device: its damped steps and their conjugate gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../engine/damped_steps.hpp"
#include "../../rows/rows.hpp"
#include "../terms/term_rows.hpp"
#include "../terms/term_sums.hpp"
#include "part_exchange.hpp"

namespace topograd::runtime::vulkan {

/// Solves (JᵀJ + Λ) δ = −gradient, preconditioned by blocks. Vectors stay on the device; the host
/// exchanges borders and sums by chunk, and decides. An iteration is two submissions.
///
/// Ghosts of the direction are not exchanged: each part makes them from those of the preconditioned
/// residual, by the operations of the parts that own them, and those of δ from them. Where some
/// parts are on CPUs (ModelPart::mixed), directions are exchanged, as there, by one more
/// submission.
class PartGradients : Part {
 public:
  /// All of these outlive it.
  PartGradients(const Part& part, TermSums& sums, const ChunkSums& chunks, PartGhosts& ghosts,
                PartWork& work);

  /// Its lists, to be made before the first solve.
  std::vector<Recorder::List> lists();
  /// Leaves δ in the vectors, with its ghosts. Returns the iterations. Collective.
  int solve(const StepRequest& request);

 private:
  struct Products {
    double rr = 0, rz = 0;
  };
  void record_preconditioned(CommandList& list);
  void record_start(CommandList& list);
  void record_direction(CommandList& list);
  void record_product(CommandList& list);
  void record_update(CommandList& list);
  Products products();
  double multiply(double beta);
  Products move(double rz, double curvature);

  TermSums& sums_;
  const ChunkSums& chunks_;
  PartGhosts& ghosts_;
  PartWork& work_;
  ChunkColumns products_, curvature_;
  std::uint64_t number_bytes_;  // of a scalar
  Buffer beta_, products_now_;  // numbers that the host writes and lists copy: β; r·z and p·q
  Recorded start_, direct_product_, direction_, product_, update_;
};

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
  /// The step is known, its ghosts included.
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

/// Evaluates at its point; steps are those of PartSteps. Sums by unknown have the order of the
/// whole model, and are evaluated again for each unknown, so that a division changes no bit of
/// them.
class PartEngine final : public Engine, public SecondDerivatives, public Guards, public Plans {
 public:
  ///   options  `part` is set; its link outlives the engine
  PartEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = &*steps_,
            .step_lengths = &*steps_,
            .last_step = &*steps_,
            .second_derivatives = this,
            .guards = this,
            .plans = this};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override { return recorder_.stats(); }
  std::string accumulation() const override { return sums_.choices().accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override;
  /// Throws Error{Unsupported}: a part of another model is another engine.
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override { return steps_->cost(); }
  void residuals(std::span<double> out) override { vectors_.residuals(out); }
  void gradient(std::span<double> out) override { vectors_.gradient(out); }
  void jacobian(std::size_t term, std::span<double> values) override {
    rows_.jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { vectors_.jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override { rows_.vjp(seeds, out); }
  void jtjp(std::span<const double> p, std::span<double> out) override { vectors_.jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { vectors_.hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    hessians_.read(term, project, values);
  }

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return rows_.failed_instances(term, at);
  }
  double trial_cost() override { return steps_->trial_cost(); }

 private:
  Context context_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};
  const Part part_{context_, recorder_, problem_, v_, terms_};
  TermRows rows_{part_};
  TermHessians hessians_{part_};
  TermSums sums_{part_, rows_};
  PointVectors vectors_{part_, rows_, sums_};
  std::unique_ptr<PartSteps> steps_;
};

}  // namespace topograd::runtime::vulkan
