// Times of outer steps, and the callback after each of them.
#pragma once

#include "../../frontend/inspect/problem_use.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"
#include "../solve_group.hpp"
#include "../summary.hpp"

#include <functional>
#include <span>
#include <vector>

namespace topograd {

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
