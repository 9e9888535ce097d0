// A problem while it is solved.
#pragma once

#include "../problem.hpp"

#include <functional>
#include <memory>

namespace topograd {

namespace detail {
struct SolveInProgress;
}

/// Keeps a problem from changes during its life, and its state alive.
///
/// What the library itself does to a problem in a solve (Branches) goes on.
class ProblemUse {
 public:
  /// A second view of a problem, which the end of the first does not touch: what solves go by.
  static Problem view_of(Problem& problem);
  /// Whether both are views of one problem.
  static bool is_same(const Problem& a, const Problem& b) { return a.state_ == b.state_; }

  /// Before a call on an object that was made for a problem, which may be gone.
  ///
  ///   problem  is not read
  ///   view     of it, from when it was there
  ///   user     for the message: "solver"
  ///
  /// Throws Error{InvalidArgument} if the problem has ended. Not noticed: one that had been moved
  /// from before.
  static void require_present(const Problem& problem, const Problem& view, const char* user);

  ///   call        for messages: "solve"
  ///   before_end  runs where the Problem ends meanwhile, while its parameters are still there;
  ///               does not throw
  ///
  /// Throws Error{InvalidArgument} if the problem is in use already, or was moved from.
  ProblemUse(const Problem& problem, const char* call, std::function<void()> before_end);
  ~ProblemUse();
  ProblemUse(const ProblemUse&) = delete;
  ProblemUse& operator=(const ProblemUse&) = delete;

  /// The caller's Problem is there no longer.
  bool ended() const;

 private:
  std::shared_ptr<detail::ProblemState> state_;
  std::unique_ptr<detail::SolveInProgress> solve_;
};

}  // namespace topograd
