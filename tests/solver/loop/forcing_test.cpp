// The forcing sequence against the formulas of Eisenstat and Walker (1996), choice 2.
#include <gtest/gtest.h>

#include "../../../solver/step_control/step_rules.hpp"

namespace topograd {
namespace {

constexpr double kTightest = 1e-5;

TEST(Forcing, ConstantStaysWhatItIs) {
  Forcing forcing(ForcingSequence::constant, kTightest);
  forcing.moved(1);
  forcing.moved(0.5);
  forcing.refused();
  EXPECT_EQ(forcing.tolerance(), kTightest);
}

TEST(Forcing, FollowsTheGradient) {
  Forcing forcing(ForcingSequence::eisenstat_walker, kTightest);
  EXPECT_EQ(forcing.tolerance(), kTightest);  // an exact first step keeps a smooth start smooth
  forcing.moved(100);
  EXPECT_EQ(forcing.tolerance(), kTightest);  // nothing to compare with
  forcing.moved(10);
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.9 * 0.01);
  forcing.moved(5);
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.9 * 0.25);
  forcing.moved(4.9);
  EXPECT_EQ(forcing.tolerance(), 0.5);  // the loosest
  forcing.moved(0.049);                 // 0.9 · 0.5² = 0.225 is safeguarded
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.225);
  forcing.moved(0.0000049);  // 0.9 · 0.225² = 0.046 is not, and 9e-9 is too tight
  EXPECT_EQ(forcing.tolerance(), kTightest);
  forcing.moved(0.0000098);  // a gradient that grows asks for little
  EXPECT_EQ(forcing.tolerance(), 0.5);
}

TEST(Forcing, LooseStepsAreNotTheLast) {
  Forcing constant(ForcingSequence::constant, kTightest);
  EXPECT_TRUE(constant.trusts_last());
  Forcing forcing(ForcingSequence::eisenstat_walker, kTightest);
  forcing.moved(1);
  forcing.moved(1);
  EXPECT_EQ(forcing.tolerance(), 0.5);
  EXPECT_FALSE(forcing.trusts_last());
  forcing.moved(1);  // unchanged, but solved ten times more exactly
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.05);
  EXPECT_FALSE(forcing.trusts_last());
  forcing.moved(1);
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.005);
  EXPECT_TRUE(forcing.trusts_last());
  forcing.moved(1);
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.005);
  // If no smaller tolerance is allowed, this is exact enough.
  Forcing loose(ForcingSequence::eisenstat_walker, 0.3);
  EXPECT_TRUE(loose.trusts_last());
}

TEST(Forcing, RefusedStepsAreSolvedMoreExactly) {
  Forcing forcing(ForcingSequence::eisenstat_walker, kTightest);
  forcing.moved(1);
  forcing.moved(1);
  EXPECT_EQ(forcing.tolerance(), 0.5);
  forcing.refused();
  EXPECT_DOUBLE_EQ(forcing.tolerance(), 0.05);
  for (int k = 0; k < 5; ++k) forcing.refused();
  EXPECT_EQ(forcing.tolerance(), kTightest);
}

}  // namespace
}  // namespace topograd
