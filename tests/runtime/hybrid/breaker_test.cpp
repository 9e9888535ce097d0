// The circuit breaker on the test's own clock.
#include <gtest/gtest.h>

#include "../../../runtime/hybrid/routing/target.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

HybridOptions options() { return {.back_off_seconds = 10, .max_back_off_seconds = 35}; }

TEST(Breaker, RateCountsFromTwentySamplesOn) {
  Breaker breaker(options());
  EXPECT_EQ(breaker.success_rate(), 1.0);
  for (int k = 0; k < 19; ++k) breaker.record(false, 0);
  EXPECT_EQ(breaker.state(0), BreakerState::closed);
  EXPECT_TRUE(breaker.admits(0));
  breaker.record(false, 0);
  EXPECT_EQ(breaker.state(0), BreakerState::open);
  EXPECT_TRUE(breaker.opened_by_rate());
  EXPECT_FALSE(breaker.admits(9.9));
}

TEST(Breaker, NinetyFivePercentIsEnough) {
  Breaker breaker(options());
  for (int k = 0; k < 95; ++k) breaker.record(true, 0);
  for (int k = 0; k < 5; ++k) breaker.record(false, 0);
  EXPECT_DOUBLE_EQ(breaker.success_rate(), 0.95);
  EXPECT_EQ(breaker.state(0), BreakerState::closed);
  breaker.record(false, 0);  // replaces a success: 94 of 100
  EXPECT_EQ(breaker.samples(), 100u);
  EXPECT_EQ(breaker.state(0), BreakerState::open);
}

TEST(Breaker, OldOutcomesLeaveTheWindow) {
  Breaker breaker(options());
  for (int k = 0; k < 100; ++k) breaker.record(k < 95, 0);
  for (int k = 0; k < 100; ++k) breaker.record(true, 0);
  EXPECT_EQ(breaker.success_rate(), 1.0);
}

TEST(Breaker, OneProbeAfterTheBackOff) {
  Breaker breaker(options());
  breaker.trip(100);
  EXPECT_FALSE(breaker.opened_by_rate());
  EXPECT_EQ(breaker.state(109), BreakerState::open);
  EXPECT_EQ(breaker.state(110), BreakerState::half_open);
  breaker.enter(110);
  EXPECT_FALSE(breaker.admits(110)) << "one probe at a time";
  breaker.record(true, 111);
  EXPECT_EQ(breaker.state(111), BreakerState::closed);
  EXPECT_EQ(breaker.samples(), 2u) << "a loss counts, and is remembered";
  EXPECT_DOUBLE_EQ(breaker.success_rate(), 0.5);
}

TEST(Breaker, TheWindowStartsAnewAfterTheRateOpenedIt) {
  Breaker breaker(options());
  for (int k = 0; k < 20; ++k) breaker.record(false, 0);
  ASSERT_TRUE(breaker.opened_by_rate());
  breaker.enter(10);
  breaker.record(true, 10);
  EXPECT_EQ(breaker.state(10), BreakerState::closed);
  EXPECT_EQ(breaker.samples(), 1u);
}

TEST(Breaker, ADeviceThatIsLostEveryThirdTimeFallsBelowTheRate) {
  Breaker breaker(options());
  double now = 0;
  int tasks = 0;
  for (; tasks < 100 && !breaker.opened_by_rate(); ++tasks) {
    while (!breaker.admits(now)) now += 1;
    breaker.enter(now);
    if (tasks % 3 == 2) {
      breaker.trip(now);
    } else {
      breaker.record(true, now);
    }
  }
  EXPECT_EQ(tasks, 20) << "as soon as the rate counts";
  EXPECT_DOUBLE_EQ(breaker.success_rate(), 0.7);
}

TEST(Breaker, ARefusalCountsAndLeavesTheProbeToOthers) {
  Breaker breaker(options());
  breaker.record_refusal(0);
  EXPECT_EQ(breaker.success_rate(), 0.0);
  EXPECT_EQ(breaker.state(0), BreakerState::closed);
  breaker.trip(0);
  breaker.enter(10);
  breaker.record_refusal(10);
  EXPECT_TRUE(breaker.admits(10)) << "still half open";
  EXPECT_EQ(breaker.openings(), 1u);
}

TEST(Breaker, BackOffDoublesUpToItsBound) {
  Breaker breaker(options());
  breaker.trip(0);
  double now = 0;
  for (const double wait : {10.0, 20.0, 35.0, 35.0}) {
    SCOPED_TRACE(wait);
    EXPECT_EQ(breaker.state(now + wait - 0.1), BreakerState::open);
    now += wait;
    ASSERT_TRUE(breaker.admits(now));
    breaker.enter(now);
    breaker.trip(now);
  }
  EXPECT_EQ(breaker.openings(), 5u);
  now += 35;
  breaker.enter(now);
  breaker.record(true, now);
  breaker.trip(now);
  EXPECT_EQ(breaker.state(now + 10), BreakerState::half_open) << "success resets the back-off";
}

TEST(Breaker, LateReportsOfOneLossAreOneOpening) {
  Breaker breaker(options());
  for (int k = 0; k < 8; ++k) breaker.trip(k);
  EXPECT_EQ(breaker.openings(), 1u);
  breaker.record(false, 10);
  breaker.record(true, 10);
  EXPECT_EQ(breaker.state(10), BreakerState::half_open) << "not a probe, says nothing";
}

}  // namespace
}  // namespace topograd::test
