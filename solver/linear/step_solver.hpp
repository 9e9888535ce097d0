// Finding a trial step: by the engine itself, or on the host.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../options.hpp"

#include <string>

namespace topograd {

/// Solves the damped normal equations; steps are asked for by LinearizedPoint alone.
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

 protected:
  friend class LinearizedPoint;
  friend class Trial;

  /// The engine was linearised, which reported `point`. Fills in the scaled norms where the engine
  /// knows no columns.
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

/// A step that was tried: the engine's trial point, and what is known of it. It can be given
/// another length, or accepted by the point that it leads from.
class Trial {
 public:
  runtime::StepReport report;

  /// Moves the trial point to `length` times the step; step_norm and trial_cost are set.
  runtime::StepReport rescale(double length) { return solver_->rescale(*engine_, length); }

 private:
  friend class LinearizedPoint;
  Trial(StepSolver& solver, runtime::Engine& engine, const runtime::StepReport& tried)
      : report(tried), solver_(&solver), engine_(&engine) {}

  StepSolver* solver_;
  runtime::Engine* engine_;
};

/// The current point of an engine that was linearised there. Steps are tried from it one after the
/// other; it ends with the one that is accepted.
class LinearizedPoint {
 public:
  ///   point  what linearize() reported; the scaled norms are filled in where the engine knows no
  ///          columns
  LinearizedPoint(StepSolver& solver, runtime::Engine& engine, runtime::PointReport& point)
      : solver_(&solver), engine_(&engine) {
    solver.linearized(engine, point);
  }

  /// Trials may have other lengths.
  bool can_rescale() const { return solver_->can_rescale(*engine_); }
  /// Takes the place of the trial before.
  Trial try_step(const runtime::StepRequest& request) {
    return {*solver_, *engine_, solver_->try_step(*engine_, request)};
  }
  /// The last trial becomes the engine's point, where nothing is linearised yet.
  void accept(Trial&&) && { runtime::damped_steps(*engine_).accept(); }

 private:
  StepSolver* solver_;
  runtime::Engine* engine_;
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
