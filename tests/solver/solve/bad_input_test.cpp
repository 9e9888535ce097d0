// Ill-posed problems on the interpreter.
#include <gtest/gtest.h>

#include "bad_input_cases.hpp"

#include "../../../frontend/problem.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

namespace topograd {
namespace {

const SolverOptions kBase = {.backend = Backend::cpu};

TEST(BadInput, WhatLacksRankIsSolvedByEverySolver) { test::expect_rank_is_not_needed(kBase); }
TEST(BadInput, WhereThereIsNoSlopeTheStartIsTheAnswer) {
  test::expect_no_slope_is_an_answer(kBase);
}
TEST(BadInput, StepsToWhereNothingIsFiniteAreNotTaken) {
  test::expect_nonfinite_steps_are_refused(kBase);
}
TEST(BadInput, AnExceptionInACallbackLeavesTheBestPointOfEveryMethod) {
  test::expect_exceptions_leave_the_best_point(kBase);
}
TEST(BadInput, BlocksThatNothingReadsAreReported) {
  test::expect_unread_blocks_are_reported(kBase);
}
TEST(BadInput, RefusalsNameTheCulprit) { test::expect_refusals_name_the_culprit(kBase); }
TEST(BadInput, LossesThatDecreaseAreNamed) { test::expect_decreasing_losses_are_named(kBase); }
TEST(BadInput, AFactorThatFailsBecomesQr) { test::expect_failed_factors_become_qr(kBase); }

TEST(BadInput, SumsThatOverflowNameTheLargestResidual) {
  std::vector<double> x = {1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] - 2.0, {.label = "small"});
  problem.add_residual(p[0] - 1e200, {.label = "large"});
  try {
    solve(problem, {.backend = Backend::cpu});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sums overflow, the largest is residual \"large\" #1"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace topograd
