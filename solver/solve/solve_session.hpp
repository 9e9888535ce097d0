// What a Solver has: its problem, options, model and best point, its engines and step solver.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../first_order/control.hpp"
#include "../linear/factor/elimination.hpp"
#include "../linear/step_solver.hpp"
#include "../make_engine.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"
#include "../summary.hpp"

namespace topograd {

/// The start of a solve, later the best accepted point that the host knows.
struct BestPoint {
  std::vector<double> x;
  BestElsewhere elsewhere;  ///< while a method that takes energies has it

  /// Takes the engine's point, or the last one that had reached the host if the engine fails.
  /// Fixed scalars stay. Returns how many of the `accepted` steps came after it.
  int fetch(runtime::Engine& engine, const runtime::Model& model, int accepted) noexcept;
  /// Fetches a point that is elsewhere; x stays if that fails.
  void fetch_elsewhere() noexcept;
  /// Takes these numbers of what is not fixed.
  void take(std::span<const double> best, const runtime::Model& model) noexcept;
};

/// The problem of a Solver, with options, model and summary of the present solve.
struct SolveState {
  Problem problem;  ///< a view of the caller's, which lives as long as this
  SolverOptions options;
  Method outer_method = Method::automatic;  ///< constrained: options are of its minimisations
  ProblemModel model;
  EliminationHint hint;  ///< of the options
  ProblemFacts facts;    ///< without its linear system
  BestPoint best;
  Summary summary;
  RetraceCounts counts;

  bool constrained() const { return takes_constraints(outer_method); }
};

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
  void describe_backend();
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
