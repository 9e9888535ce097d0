// Ill-posed problems on a Vulkan device.
#include <gtest/gtest.h>

#include "../../support/validation.hpp"
#include "bad_input_cases.hpp"

namespace topograd {
namespace {

class VulkanBadInput : public test::VulkanTest {};

const SolverOptions kBase = {.backend = Backend::vulkan};

TEST_F(VulkanBadInput, WhatLacksRankIsSolvedByEverySolver) {
  TG_NEEDS(float64);
  test::expect_rank_is_not_needed(kBase);
}
TEST_F(VulkanBadInput, WhereThereIsNoSlopeTheStartIsTheAnswer) {
  TG_NEEDS(float64);
  test::expect_no_slope_is_an_answer(kBase);
}
TEST_F(VulkanBadInput, StepsToWhereNothingIsFiniteAreNotTaken) {
  TG_NEEDS(float64);
  test::expect_nonfinite_steps_are_refused(kBase);
}
TEST_F(VulkanBadInput, AnExceptionInACallbackLeavesTheBestPointOfEveryMethod) {
  TG_NEEDS(float64);
  test::expect_exceptions_leave_the_best_point(kBase);
}
TEST_F(VulkanBadInput, BlocksThatNothingReadsAreReported) {
  TG_NEEDS(float64);
  test::expect_unread_blocks_are_reported(kBase);
}
TEST_F(VulkanBadInput, RefusalsNameTheCulprit) {
  TG_NEEDS(float64);
  test::expect_refusals_name_the_culprit(kBase);
}
TEST_F(VulkanBadInput, LossesThatDecreaseAreNamed) {
  TG_NEEDS(float64);
  test::expect_decreasing_losses_are_named(kBase);
}
TEST_F(VulkanBadInput, AFactorThatFailsBecomesQr) {
  TG_NEEDS(float64);
  test::expect_failed_factors_become_qr(kBase);
}

}  // namespace
}  // namespace topograd
