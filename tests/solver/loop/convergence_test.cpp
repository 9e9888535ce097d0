// Verdicts on the last steps: what rounding hides, the share of the damping, idle steps.
#include <gtest/gtest.h>

#include "../../../solver/step_control/convergence.hpp"
#include "../../../solver/step_control/newton_decrement.hpp"
#include "../../../solver/step_control/step_rules.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace topograd {
namespace {

// A unit is 2^-52 of the cost, or 2^-23.
TEST(Convergence, RoundingIsCountedInUnitsOfTheCost) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    const double unit = std::ldexp(1.0, precision == Precision::f64 ? -52 : -23);
    for (const double cost : {1.0, 0x1p-40, -0x1p40}) {
      const double size = std::abs(cost) * unit;
      EXPECT_EQ(sum_noise(cost, precision), 8 * size);
      EXPECT_TRUE(rounding_hides(cost, 64 * size, 64 * size, precision));
      EXPECT_TRUE(rounding_hides(cost, -64 * size, 0, precision));
      EXPECT_FALSE(rounding_hides(cost, 65 * size, 0, precision));
      EXPECT_FALSE(rounding_hides(cost, -65 * size, 0, precision));
      EXPECT_FALSE(rounding_hides(cost, 0, 65 * size, precision));
    }
  }
}

// Hidden steps end a solve after the twentieth in turn whose gradient is no less than half of the
// least before.
TEST(Convergence, TwentyIdleStepsAreAnEnd) {
  const auto steps_to_end = [](int falls) {
    HiddenSteps hidden(SolverOptions{});
    TrustRegion region(1, 1e300);
    double gradient = 1;
    for (int step = 1; step < 100; ++step) {
      const double before = gradient;
      if (step <= falls) gradient /= 3;
      if (hidden.follow(before, gradient, 0, region)) return step;
    }
    return 0;
  };
  EXPECT_EQ(steps_to_end(1), 21);
  EXPECT_EQ(steps_to_end(7), 27);
}

// A step that the damping shortens to nothing widens the region, though rounding makes the largest
// entry of the gradient a little larger. One that doubles it shows curvature, and no later step
// widens the region to where that was.
TEST(Convergence, HiddenStepsThatAreHeldBackWidenTheRegion) {
  HiddenSteps hidden(SolverOptions{});
  TrustRegion region(1e4, 1e16);
  EXPECT_FALSE(hidden.follow(1, 1.04, 0.999, region));
  EXPECT_EQ(region.radius(), 1e5);
  EXPECT_FALSE(hidden.follow(1.04, 1.02, 0.99, region));
  EXPECT_EQ(region.radius(), 1e6);
  EXPECT_FALSE(hidden.follow(1.02, 1.03, 0.5, region)) << "not held back";
  EXPECT_EQ(region.radius(), 2.5e5);
  EXPECT_FALSE(hidden.follow(1.03, 3, 0.999, region)) << "curves";
  EXPECT_EQ(region.radius(), 6.25e4);
  EXPECT_FALSE(hidden.follow(3, 3.1, 0.999, region)) << "would lead back";
  EXPECT_EQ(region.radius(), 1.5625e4);
  EXPECT_FALSE(hidden.follow(3.1, 3.2, std::nan(""), region)) << "unknown";
  EXPECT_EQ(region.radius(), 3906.25);
  EXPECT_FALSE(hidden.follow(3.2, 3.3, 0.999, region));
  EXPECT_EQ(region.radius(), 39062.5);
}

// The damped step δ solves (H + λD) δ = −g with JᵀJ = H, so −g·δ = δ·Hδ + λ δ·Dδ and the model
// falls by −g·δ − δ·Hδ / 2. A step of another length along δ tells the same share.
TEST(Convergence, TheShareOfTheDampingIsThatOfAnyLength) {
  for (const double h : {1.0, 1e-6, 3.0}) {
    for (const double lambda : {0.0, 0.5, 10.0}) {
      const double g = 2, step = -g / (h + lambda);
      const runtime::StepReport report{
          .model_decrease = -g * step - h * step * step / 2, .trial_cost = 5, .slope = g * step};
      const double share = lambda * step * step / (-g * step);
      EXPECT_NEAR(damped_share(report), share, 1e-14);
      for (const double length : {0.25, 0.75, 2.0}) {
        runtime::StepReport shorter = report;
        shorter.length = length;
        ASSERT_TRUE(StepRules::take_length(shorter, length, {.trial_cost = 4}));
        EXPECT_NEAR(damped_share(shorter), share, 1e-14) << length;
      }
    }
  }
  EXPECT_TRUE(std::isnan(damped_share({.model_decrease = 1})));
}

// The model of whole numbers with the gradient −H δ has the step δ and promises ½ δ·H δ.
TEST(NewtonDecrement, TheStepLeadsToTheMinimum) {
  QuadraticModel at;
  at.unknowns = {0, 1, 2};
  at.hessian = (Eigen::Matrix3d() << 4, 2, 1, 2, 5, 3, 1, 3, 6).finished();
  const Eigen::Vector3d step(1, -2, 3);
  at.gradient = -at.hessian * step;
  at.noise = Eigen::Vector3d::Zero();
  const auto found = NewtonDecrement::make(at, std::numeric_limits<double>::epsilon());
  ASSERT_TRUE(found);
  EXPECT_NEAR((found->step() - step).norm(), 0, 1e-13);
  EXPECT_NEAR(found->gain(), step.dot(at.hessian * step) / 2, 1e-12);
}

// The gradient falls to 5 % in all. That of an unknown which is asked for has to fall to a tenth of
// its own.
TEST(NewtonDecrement, UnknownsThatAreAskedForFallByThemselves) {
  QuadraticModel at;
  at.unknowns = {3, 8};
  at.hessian = Eigen::Matrix2d::Identity();
  at.gradient = Eigen::Vector2d(100, 1);
  at.noise = Eigen::Vector2d::Zero();
  const auto found = NewtonDecrement::make(at, std::numeric_limits<double>::epsilon());
  ASSERT_TRUE(found);
  const auto holds = [&](double first, double second, const std::vector<LeastCurvature>& asked) {
    return std::isfinite(found->gain_that_holds(Eigen::Vector2d(first, second), asked));
  };
  EXPECT_TRUE(holds(5, 0.5, {}));
  EXPECT_TRUE(holds(5, 0.5, {{3, 1}}));
  EXPECT_FALSE(holds(5, 0.5, {{8, 1}}));
  EXPECT_FALSE(holds(5, 0.05, {{3, 1}, {8, 2}})) << "has less curvature than is asked for";
  EXPECT_TRUE(holds(5, 0.05, {{3, 1}, {8, 1}}));
  EXPECT_FALSE(holds(11, 0, {}));
}

}  // namespace
}  // namespace topograd
