// An engine that never evaluates a branch that holds no longer.
#pragma once

#include "../../frontend/problem.hpp"
#include "../options.hpp"
#include "session.hpp"

#include <cstdint>

namespace topograd {

/// Branches in a solve or an Evaluator.
struct RetraceCounts {
  std::uint64_t flips = 0;     ///< instances that failed a branch, over all evaluations it voided
  std::uint64_t retraces = 0;  ///< of these, traced again and kept: not those of rejected trials
};

/// Puts the protocol of branches around the session's engine, if the problem has any.
///
/// All branches hold in every evaluation of the resulting engine. If instances fail a branch, the
/// backend finds them, Branches::retake traces them again at its point, `model` is made again in
/// its place with another revision, the engine follows, and the same point is evaluated again, at
/// most four times. Moves for a trial point are taken back if the next evaluation, or point(),
/// comes without an accept(). Callers call cost() before they read residuals or Jacobians by the
/// model's terms.
///
/// A callable that refuses a point (PointRefused) makes cost and trial cost there NaN.
///
/// Calls throw what the engine throws, Error{StaleBranch} that names the residual where it cannot
/// be traced again, and what its callable throws; branches are those of the last accepted point
/// then.
///
///   call     name for messages, e.g. "solve"
///   problem, model, counts  outlive the engine
///   with_losses             as make_model() made the model
void follow_branches(Session& session, const char* call, Problem& problem, ProblemModel& model,
                     const SolverOptions& options, RetraceCounts& counts, bool with_losses = true);

}  // namespace topograd
