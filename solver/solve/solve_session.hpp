// A Solver's state: its problem, options, model, engines and steps, their watch and description.
#pragma once

#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/inspect/unread_blocks.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../first_order/control.hpp"
#include "../linear/factor/elimination.hpp"
#include "../linear/step_solver.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../session/engines.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"
#include "../solve_group.hpp"
#include "../summary.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

std::vector<TopologySummary> topologies_of(const ProblemModel& model);
/// Blocks and rows that the residuals of all processes leave out.
struct ProblemReads {
  std::vector<UnreadBlock> unread;  ///< blocks that nothing reads
  std::uint64_t left_out = 0;       ///< rows with weight 0
  std::uint64_t unknowns = 0;       ///< free coordinates that other rows, or energies, read
};

/// The reads of the model's problem, in its present state.
class ReadsOfModel {
 public:
  const ProblemReads& of(const ProblemModel& model);

 private:
  ProblemReads reads_;
  bool known_ = false;
  Versions versions_;  // that they are of
};

/// Sets the summary's fields of the problem, at the start of a solve.
void describe_problem(SolveState& state, const ProblemReads& reads);

/// Sets the summary's fields of the factor.
void describe_factor(const Plan& plan, const SolverOptions& options, Summary& summary);

/// The message of a failed allocation, with alternatives that need less.
std::string out_of_memory(const runtime::Model& model);

/// In a handler: the message of the error that is handled.
std::string text_of_current_error();

/// Fills Summary::kernels and Summary::profile.
///
///   copy_rate  of the backend of the kernels, in bytes per second; 0: unknown
void describe_profile(const runtime::Profile& profile, double copy_rate, Summary& summary);

/// Notes how long steps take, and asks the caller, signals and the other processes of the solve
/// whether it goes on.
class StepWatch {
 public:
  using Ask = std::function<CallbackReturn()>;

  ///   group  outlives it; null: this process alone
  explicit StepWatch(SolveGroup* group) : group_(group) {}

  /// A solve begins.
  void begin(const ProblemUse& use);
  /// The Solver ends, perhaps in a callback.
  void end_solver() noexcept { solver_ended_ = true; }

  /// A step has ended.
  ///
  ///   ask  asks the caller; its time is no part of the next step's. May be empty.
  ///
  /// Throws Error{InvalidArgument} if the caller has ended the problem or the Solver, and what
  /// `ask` throws.
  CallbackReturn after(const IterationSummary& iteration, const Engines& engines, const Ask& ask);

  /// The caller has ended the problem in this solve.
  bool problem_ended() const { return use_->ended(); }
  /// A signal has ended this solve.
  bool interrupted() const { return interrupted_; }
  /// Seconds of the steps since the last change of engines, without those in which kernels were
  /// compiled.
  std::span<double> step_seconds() { return step_seconds_; }
  void change_engines() { step_seconds_.clear(); }

 private:
  void note(const IterationSummary& iteration, const Engines& engines);
  void refuse_end() const;

  SolveGroup* group_;
  const ProblemUse* use_ = nullptr;  // of the present solve
  bool solver_ended_ = false;
  bool interrupted_ = false;
  std::vector<double> step_seconds_;
  double compiled_ms_ = 0;       // up to the last step
  double callback_seconds_ = 0;  // of the caller's callback after it
};

}  // namespace topograd
