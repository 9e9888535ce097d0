// Times of steps, callbacks, and what ends a solve from outside.
#include "step_watch.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../interrupts.hpp"
#include "../solve_watch.hpp"

#include <chrono>
#include <string>

namespace topograd {

void StepWatch::begin(const ProblemUse& use) {
  use_ = &use;
  interrupted_ = false;
  step_seconds_.clear();
}

CallbackReturn StepWatch::after(const IterationSummary& iteration, const Engines& engines,
                                const Ask& ask) {
  note(iteration, engines);
  CallbackReturn answer = CallbackReturn::SOLVER_CONTINUE;
  if (ask) {
    const auto begin = std::chrono::steady_clock::now();
    answer = ask();
    callback_seconds_ = seconds_since(begin);
  }
  refuse_end();
  const SolveWatch* const watch = SolveWatch::current();
  const bool own = Interrupts::came() || (watch != nullptr && watch->should_end());
  const bool came = group_ == nullptr ? own : group_->any(own);
  if (answer != CallbackReturn::SOLVER_CONTINUE || !came) return answer;
  interrupted_ = true;
  return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
}

void StepWatch::note(const IterationSummary& iteration, const Engines& engines) {
  // While kernels are made, the interpreter shares its threads with compilers.
  const double compiled = engines.stats().compile_wall_ms;
  const bool cold = compiled != compiled_ms_;
  compiled_ms_ = compiled;
  if (iteration.iteration == 0 || cold || engines.starting()) return;
  step_seconds_.push_back(iteration.iteration_time_in_seconds - callback_seconds_);
}

/// A callback, or a residual on the host, has ended what is solved, or the Solver.
void StepWatch::refuse_end() const {
  const char* const what = use_->ended() ? "problem" : solver_ended_ ? "Solver" : nullptr;
  if (what == nullptr) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string("solve: the ") + what +
                  " ended inside of a callback of this solve; expected it to live until solve() "
                  "has returned");
}

}  // namespace topograd
