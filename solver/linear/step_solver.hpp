// Finding a trial step: by the engine itself, or on the host.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../options.hpp"

#include <string>

namespace topograd {

/// Solves the damped normal equations at the point where the engine was last linearised.
class StepSolver {
 public:
  virtual ~StepSolver() = default;

  virtual LinearSolver kind() const = 0;
  /// What became of the choice in the solve, to be added to its reason; empty: nothing.
  virtual std::string note() const { return {}; }
  /// What ForcingSequence::automatic means for it.
  virtual ForcingSequence forcing() const { return ForcingSequence::constant; }
  /// Another solve begins: what was taken from the first point is forgotten.
  virtual void begin_solve() {}
  /// To be called once after each Engine::linearize(), which reported `point`, before try_step.
  /// Fills in the scaled norms where the engine knows no columns.
  virtual void linearized(runtime::Engine& engine, runtime::PointReport& point) = 0;
  /// Moves the engine to its trial point. A model_decrease that is not finite says that the linear
  /// system could not be solved; the engine has no trial point then.
  virtual runtime::StepReport try_step(runtime::Engine& engine,
                                       const runtime::StepRequest& request) = 0;
  /// Whether steps of this solver at this engine may have other lengths.
  virtual bool can_rescale(runtime::Engine& engine) const {
    return engine.abilities().step_lengths != nullptr;
  }
  /// Moves the trial point to `length` times the last step; step_norm and trial_cost are set.
  virtual runtime::StepReport rescale(runtime::Engine& engine, double length) {
    return runtime::step_lengths(engine).rescale_step(length);
  }
};

/// Conjugate gradients where the data are.
class PcgStep final : public StepSolver {
 public:
  explicit PcgStep(ForcingSequence forcing = ForcingSequence::constant) : forcing_(forcing) {}

  LinearSolver kind() const override { return LinearSolver::pcg; }
  ForcingSequence forcing() const override { return forcing_; }
  void linearized(runtime::Engine&, runtime::PointReport&) override {}
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override {
    return runtime::damped_steps(engine).try_step(request);
  }

 private:
  ForcingSequence forcing_;
};

}  // namespace topograd
