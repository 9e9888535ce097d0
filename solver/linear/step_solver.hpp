// Interface for solving a trial step, on the engine or on the host.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/profile.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd {

/// Solves the damped normal equations; only LinearizedPoint requests steps.
class StepSolver {
 public:
  virtual ~StepSolver() = default;

  virtual LinearSolver kind() const = 0;
  /// Consequences of the choice in this solve, added to its reason; empty: none.
  virtual std::string note() const { return {}; }
  /// Meaning of ForcingSequence::automatic for this solver.
  virtual ForcingSequence forcing() const { return ForcingSequence::constant; }
  /// Most unknowns with which steps without damping are exact, also where columns depend on each
  /// other nearly, and cost no more than other steps.
  virtual std::uint64_t most_undamped(const runtime::Engine& /*engine*/) const {
    return kLargestReadBack;
  }
  /// True if column_squares() are known on the engine.
  virtual bool knows_columns(const runtime::Engine& /*engine*/) const { return false; }
  /// Squares of the norms of the columns of J at the linearised point, by scalar of x; NaN for one
  /// without a column of its own: it is fixed, or on a manifold. Called if they are known.
  virtual std::vector<double> column_squares(runtime::Engine& /*engine*/) { return {}; }
  /// Lists the kernels of the engine that steps need beyond that of the cost.
  virtual std::vector<runtime::Need> needs() const { return {runtime::Need{}}; }
  /// Marks the start of another solve: data of the first point are forgotten.
  virtual void begin_solve() {}
  /// Saves or restores what steps read of earlier points. A restored solver is given the point by
  /// linearized() before its next step.
  virtual void transfer(ir::StateRecord& /*record*/) {}

 protected:
  friend class LinearizedPoint;
  friend class Trial;

  /// Called after the engine was linearised and reported `point`. Sets the scaled norms if the
  /// engine has no columns.
  virtual void linearized(runtime::Engine& engine, runtime::PointReport& point) = 0;
  /// Moves the engine to its trial point. If model_decrease is not finite, the linear system could
  /// not be solved and the engine has no trial point.
  virtual runtime::StepReport try_step(runtime::Engine& engine,
                                       const runtime::StepRequest& request) = 0;
  /// True if steps of this solver on this engine may have other lengths.
  virtual bool can_rescale(runtime::Engine& engine) const {
    return engine.abilities().step_lengths != nullptr;
  }
  /// Moves the trial point to `length` times the last step; sets step_norm and trial_cost.
  virtual runtime::StepReport rescale(runtime::Engine& engine, double length) {
    return runtime::step_lengths(engine).rescale_step(length);
  }
};

/// A trial step: the engine's trial point and its report. It can be rescaled, or accepted by the
/// point from which it starts.
class Trial {
 public:
  runtime::StepReport report;

  /// Moves the trial point to `length` times the step; sets step_norm and trial_cost.
  runtime::StepReport rescale(double length) { return solver_->rescale(*engine_, length); }

 private:
  friend class LinearizedPoint;
  Trial(StepSolver& solver, runtime::Engine& engine, const runtime::StepReport& tried)
      : report(tried), solver_(&solver), engine_(&engine) {}

  StepSolver* solver_;
  runtime::Engine* engine_;
};

/// The linearised current point of an engine. Steps are tried in turn; accepting one ends it.
class LinearizedPoint {
 public:
  ///   point  report of linearize(); sets the scaled norms if the engine has no columns
  LinearizedPoint(StepSolver& solver, runtime::Engine& engine, runtime::PointReport& point)
      : solver_(&solver), engine_(&engine) {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "linear_system");
    solver.linearized(engine, point);
  }

  /// True if trials may have other lengths.
  bool can_rescale() const { return solver_->can_rescale(*engine_); }
  /// StepSolver::most_undamped().
  std::uint64_t most_undamped() const { return solver_->most_undamped(*engine_); }
  /// StepSolver::column_squares(); empty if they are not known.
  std::vector<double> column_squares() const {
    if (!solver_->knows_columns(*engine_)) return {};
    return solver_->column_squares(*engine_);
  }
  /// Replaces the trial before.
  Trial try_step(const runtime::StepRequest& request) {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "linear_solve");
    return {*solver_, *engine_, solver_->try_step(*engine_, request)};
  }
  /// Makes the last trial the engine's point, which is not linearised yet.
  void accept(Trial&&) && { runtime::damped_steps(*engine_).accept(); }

 private:
  StepSolver* solver_;
  runtime::Engine* engine_;
};

}  // namespace topograd
