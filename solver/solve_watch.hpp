// Watching solves, and ending them, without a say in their decisions.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace topograd {

struct IterationSummary;

/// How far a solve is: its last iteration, or how many of its components have ended.
struct SolveProgress {
  const IterationSummary* iteration = nullptr;  ///< null: components are solved one by one
  std::size_t components_done = 0, components = 0;
  double seconds = 0;  ///< since the components began
};

/// While it lives, the solves that begin on its thread tell it how far they are, and ask it whether
/// they should end. Unlike with a callback (SolverOptions::callback) no decision of a solve depends
/// on it: so components may be solved one by one.
///
/// It is told after each iteration on the calling thread; of components now and then, one call at a
/// time, on any thread of the solve. What it calls must not throw. The latest one of a thread is
/// told; the one before it again when that has ended.
class SolveWatch {
 public:
  using Tell = std::function<void(const SolveProgress&)>;
  using Ask = std::function<bool()>;

  /// Either may be empty.
  ///
  ///   ask  called after each step, of components on all threads of the solve at once; true ends a
  ///        solve at its best point with Termination::USER_SUCCESS, as a signal does
  explicit SolveWatch(Tell tell, Ask ask = {})
      : tell_(std::move(tell)), ask_(std::move(ask)), outer_(std::exchange(current_, this)) {}
  ~SolveWatch() { current_ = outer_; }
  SolveWatch(const SolveWatch&) = delete;
  SolveWatch& operator=(const SolveWatch&) = delete;

  void tell(const SolveProgress& progress) const {
    if (tell_) tell_(progress);
  }
  bool should_end() const { return ask_ && ask_(); }
  /// That of this thread; null: nobody watches.
  static const SolveWatch* current() { return current_; }

 private:
  static inline thread_local const SolveWatch* current_ = nullptr;
  Tell tell_;
  Ask ask_;
  const SolveWatch* outer_;
};

}  // namespace topograd
