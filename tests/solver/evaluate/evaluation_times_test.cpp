// Evaluator calls whose times enter a median.
#include <gtest/gtest.h>

#include "../../../solver/evaluation/evaluated_problem.hpp"

#include <optional>

namespace topograd {
namespace {

using runtime::Pass;

TEST(EvaluationTimes, LeavesTheFirstOutAndGivesAMedianOfThree) {
  EvaluationTimes times;
  EXPECT_FALSE(times.add(Pass::cost, 900, 0));
  EXPECT_FALSE(times.add(Pass::cost, 5, 0));
  EXPECT_FALSE(times.add(Pass::gradient, 70, 0)) << "another kind, and its first";
  EXPECT_FALSE(times.add(Pass::cost, 9, 0));
  EXPECT_EQ(times.add(Pass::cost, 6, 0), 6);
  for (int k = 0; k < 31; ++k) ASSERT_FALSE(times.add(Pass::cost, 8, 0)) << k;
  EXPECT_EQ(times.add(Pass::cost, 8, 0), 8);
}

TEST(EvaluationTimes, TimesWhileKernelsAreMadeDoNotCount) {
  EvaluationTimes times;
  for (int k = 0; k < 10; ++k) ASSERT_FALSE(times.add(Pass::jvp, 5, k)) << k;
  EXPECT_FALSE(times.add(Pass::jvp, 4, 9));
  EXPECT_FALSE(times.add(Pass::jvp, 4, 9));
  EXPECT_EQ(times.add(Pass::jvp, 3, 9), 4);
}

TEST(EvaluationTimes, AnotherEngineBeginsAnew) {
  EvaluationTimes times;
  for (int k = 0; k < 3; ++k) times.add(Pass::hvp, 5, 0);
  times.clear();
  for (int k = 0; k < 3; ++k) ASSERT_FALSE(times.add(Pass::hvp, 7, 0)) << k;
  EXPECT_EQ(times.add(Pass::hvp, 7, 0), 7);
}

}  // namespace
}  // namespace topograd
