// The engines of a Solver, and what solves for steps on them.
#pragma once

#include "../../ir/error.hpp"
#include "../linear/step_solver.hpp"
#include "../make_engine.hpp"
#include "../session/session.hpp"
#include "solve_state.hpp"

#include <memory>

namespace topograd {

/// Closed at first, after an error, and after changes of the problem that need another engine.
class SolveSession {
 public:
  ///   state  outlives it; the session is that of its model, options and facts
  ///   make   as that of a Solver
  SolveSession(SolveState& state, MakeEngine make) : state_(state), make_(std::move(make)) {}

  bool is_open() const { return session_.engines != nullptr; }
  /// Also in the middle of something.
  void close();
  /// Opens engines at the best point, and decides how steps are made.
  void open();
  /// True if the CPU takes over after this error, which is a device's that `automatic` had chosen.
  bool may_take_over(const Error& error) const;
  /// Goes on at the best point on the CPU.
  void take_over(const Error& failure);
  /// Takes engines, kernels and patterns of factors from the last solve.
  void go_on();

  /// While it is open.
  const Session& get() const { return session_; }
  Engines& engines() const { return *session_.engines; }
  runtime::Engine& engine() const { return session_.engine(); }
  /// True if it is open on the CPU because solves are short, and these have taken long by now.
  bool should_look() const { return is_open() && is_short() && short_solves_add_up(); }
  bool is_short() const { return session_.plan.backend.reason == BackendReason::short_solve; }
  bool on_device() const { return engine().backend() != runtime::Backend::cpu; }
  /// Null for methods for scalar objectives.
  StepSolver* steps() const { return steps_.get(); }

  /// Sets the summary's fields of backend and plan.
  void describe_place();
  /// Adds the work since the start to the summary.
  void count_work();

 private:
  void open(Session session);
  void start();

  SolveState& state_;
  MakeEngine make_;  // empty: the backends'
  Session session_;
  runtime::EngineStats before_;  // of the engines, when the solve began
  std::unique_ptr<StepSolver> steps_;
};

}  // namespace topograd
