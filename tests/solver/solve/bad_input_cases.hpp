// Ill-posed problems on the backend of `base`: they end with a reason, and the caller's parameters
// are the best accepted point.
#pragma once

#include "../../../solver/options.hpp"

namespace topograd::test {

/// Least squares with every linear solver.
void expect_rank_is_not_needed(const SolverOptions& base);
void expect_no_slope_is_an_answer(const SolverOptions& base);
void expect_nonfinite_steps_are_refused(const SolverOptions& base);
/// Callbacks with every method.
void expect_exceptions_leave_the_best_point(const SolverOptions& base);
void expect_unread_blocks_are_reported(const SolverOptions& base);
void expect_refusals_name_the_culprit(const SolverOptions& base);
/// Least squares steps: an error at the start, later the end of the solve.
void expect_decreasing_losses_are_named(const SolverOptions& base);
/// Small rank-deficient problems, undamped.
void expect_failed_factors_become_qr(const SolverOptions& base);

}  // namespace topograd::test
