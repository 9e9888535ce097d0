// The radius: growth by gain, accelerating shrinkage.
#include <gtest/gtest.h>

#include <utility>

#include "../../../solver/step_control/trust_region.hpp"

namespace topograd {
namespace {

TEST(TrustRegion, GrowsByTheGain) {
  // radius / max(1/3, 1 - (2 gain - 1)^3), by hand.
  const struct {
    double gain, expected;
  } rows[] = {{1.0, 3e4},          {0.5, 1e4}, {0.25, 1e4 / 1.125},
              {0.75, 1e4 / 0.875}, {0.0, 5e3}, {3.0, 3e4}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.gain);
    TrustRegion region(1e4, 1e16);
    region.accepted(row.gain);
    EXPECT_NEAR(region.radius(), row.expected, 1e-9 * row.expected);
  }
}

TEST(TrustRegion, GrowsMoreAfterGoodStepsThatAreSlow) {
  const struct {
    double gain, expected;
  } rows[] = {{0.6, 1e4 / (1 - 0.008)}, {0.75, 1.5e4 / 0.875}, {0.9, 3e4}, {1.0, 3e4}, {0.0, 5e3}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.gain);
    TrustRegion region(1e4, 1e16);
    region.accepted(row.gain, 0, true);
    EXPECT_NEAR(region.radius(), row.expected, 1e-9 * row.expected);
  }
  TrustRegion dogleg(10, 100, true);
  dogleg.accepted(0.8, 1, true);
  EXPECT_EQ(dogleg.radius(), 10);
}

TEST(TrustRegion, ShrinksFasterWithEachRejection) {
  TrustRegion region(64, 1e16);
  const double expected[] = {32, 8, 1, 1.0 / 16};
  for (const double radius : expected) {
    region.rejected();
    EXPECT_EQ(region.radius(), radius);
  }
  region.accepted(0.5);  // growth 1, and the factor is 2 again
  region.rejected();
  EXPECT_EQ(region.radius(), 1.0 / 32);
}

TEST(TrustRegion, RejectionsBeginAgainOnceItGrew) {
  const auto first_share = [](void (*grow)(TrustRegion&)) {
    TrustRegion region(64, 1e16);
    for (int k = 0; k < 3; ++k) region.rejected();
    grow(region);
    const double before = region.radius();
    region.rejected();
    return before / region.radius();
  };
  EXPECT_EQ(first_share([](TrustRegion& r) { r.accepted(0.5, 1, false); }), 2);
  EXPECT_EQ(first_share([](TrustRegion& r) { EXPECT_TRUE(r.widen(2, 1e10)); }), 2);
  EXPECT_EQ(first_share([](TrustRegion& r) { r.restart(8); }), 2);
}

TEST(TrustRegion, OfTheDoglegShrinksOnlyBelowAQuarter) {
  for (const auto& [gain, radius] : {std::pair(0.2, 5.0), {0.25, 10.0}, {0.4, 10.0}}) {
    TrustRegion region(10, 100, true);
    region.accepted(gain, 1, false);
    EXPECT_EQ(region.radius(), radius) << gain;
  }
}

TEST(TrustRegion, NeverExceedsTheLargest) {
  TrustRegion region(10, 20);
  region.accepted(1.0);
  EXPECT_EQ(region.radius(), 20);
}

TEST(TrustRegion, InvalidStepsHalveIt) {
  TrustRegion region(10, 20);
  region.invalid();
  region.invalid();
  EXPECT_EQ(region.radius(), 2.5);
}

TEST(TrustRegion, OfTheDoglegFollowsTheStep) {
  TrustRegion region(4, 20, true);
  region.accepted(0.9, 3);  // good: three times the step
  EXPECT_EQ(region.radius(), 9);
  region.accepted(0.9, 1);  // never smaller than before
  EXPECT_EQ(region.radius(), 9);
  region.accepted(0.5, 9);  // neither good nor poor
  EXPECT_EQ(region.radius(), 9);
  region.accepted(0.1, 9);  // poor
  EXPECT_EQ(region.radius(), 4.5);
  region.rejected();
  region.rejected();
  EXPECT_EQ(region.radius(), 1.125);
  region.invalid();  // the Gauss–Newton step is damped instead
  EXPECT_EQ(region.radius(), 1.125);
  region.accepted(1, 10);
  EXPECT_EQ(region.radius(), 20) << "the largest";
}

}  // namespace
}  // namespace topograd
