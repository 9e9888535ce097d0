// When descents end.
#include <gtest/gtest.h>

#include "../../../solver/first_order/control.hpp"

#include <functional>

namespace topograd {
namespace {

/// A descent of two steps, the second of which changes the cost by this.
struct Steps {
  Steps(double change, Settling settling, bool scale_free = true)
      : options{.scale_free = scale_free}, control(options, summary) {
    control.start(100, {.max = 1, .squared = 1});
    control.accepted({.cost_change = 50, .step_norm = 1}, 50, {.max = 1, .squared = 1}, 1,
                     settling);
    control.accepted({.cost_change = change, .step_norm = 1}, 50 - change, {.max = 1, .squared = 1},
                     1, settling);
  }

  SolverOptions options;
  Summary summary;
  DescentControl control;
};

// The cost has fallen by 9, to 1. A step of a tenth of the unknowns' size leaves a hundredth of the
// 9, and a tolerance of a tenth leaves a tenth of the 1.
TEST(DescentControl, ClaimsWhatTheLooserToleranceLeaves) {
  SolverOptions options;
  options.parameter_tolerance = 0.1;
  options.function_tolerance = 1e-9;
  Summary summary;
  summary.iterations = {{.cost = 10}, {.cost = 1}};
  EXPECT_DOUBLE_EQ(claimed_decrease(options, summary, 1), 0.09);
  options.function_tolerance = 0.1;
  EXPECT_DOUBLE_EQ(claimed_decrease(options, summary, 1), 0.1);
}

// The first steps do not count, and of a cost with a constant its decrease does.
TEST(DescentControl, ASteepStartAndAConstantSayNothing) {
  SolverOptions options;
  options.function_tolerance = 0.1;
  Summary summary;
  for (int k = 0; k < 64; ++k)
    summary.iterations.push_back(
        {.cost = 1e6 + (k < 8 ? 1e12 : 64 - k), .gradient_max_norm = k < 8 ? 1e9 : 2});
  EXPECT_DOUBLE_EQ(gentle_cost(summary), 1e6 + 56);
  EXPECT_DOUBLE_EQ(recent_cost(summary), 1e6 + 32);
  EXPECT_DOUBLE_EQ(recent_gradient(summary), 2);
  EXPECT_DOUBLE_EQ(cost_resolution(options, summary, 1e6), 5.6);
  options.scale_free = false;
  EXPECT_DOUBLE_EQ(cost_resolution(options, summary, 1e6), 1e5);
}

// A step back into a valley is small, but the next one goes along it.
TEST(DescentControl, ASmallStepEndsIfTheNextPromisesNoMore) {
  Steps along(1e-6, Settling::newton);
  EXPECT_FALSE(along.control.finished());
  EXPECT_FALSE(along.control.settles(1e-3));
  EXPECT_FALSE(along.control.settles(0)) << "a step was taken since";
  EXPECT_FALSE(along.control.finished());

  Steps still(1e-6, Settling::newton);
  EXPECT_TRUE(still.control.settles(1e-6));
  EXPECT_TRUE(still.control.finished());
  EXPECT_EQ(still.summary.termination, Termination::CONVERGENCE);
  EXPECT_NE(still.summary.message.find("|cost change|: 1.000000e-06"), std::string::npos)
      << still.summary.message;
}

// A step of no length ends nothing while it brings 1e-12 of what was gained, for a tolerance of
// 1e-6 of a cost that is near 0 by now.
TEST(DescentControl, AShortStepThatGainsGoesOn) {
  const SolverOptions options{.function_tolerance = 1e-6, .parameter_tolerance = 1e-2};
  for (const auto& [change, ends] : {std::pair(1e-9, false), {1e-13, true}}) {
    Summary summary;
    DescentControl control(options, summary);
    control.start(1, {.max = 1, .squared = 1});
    control.accepted({.cost_change = 1, .step_norm = 1}, 1e-8, {.max = 1, .squared = 1}, 1,
                     Settling::loose);
    EXPECT_FALSE(control.finished());
    for (int step = 0; step < 6; ++step)
      control.accepted({.cost_change = change, .step_norm = 1e-9}, 1e-30, {.max = 1, .squared = 1},
                       1, Settling::window);
    EXPECT_EQ(control.finished(), ends) << change;
  }
}

// The first step of a descent in which all has units moves by the size of x, within 1e-10 of the
// length on which the gradient promises the whole cost, and that.
TEST(DescentControl, TheFirstLengthIsThatOfTheUnknownsWithinLimits) {
  const GradientNorms gradient{.max = 2, .squared = 4};
  EXPECT_NEAR(first_length(true, 12, gradient, 1), 0.5, 1e-15);
  EXPECT_NEAR(first_length(true, 12, gradient, 1e3), 3, 1e-15);
  EXPECT_NEAR(first_length(true, 12, gradient, 1e-15) / 3e-10, 1, 1e-12);
}

TEST(DescentControl, ALargeStepEndsNothing) {
  Steps steps(1e-3, Settling::newton);
  EXPECT_FALSE(steps.control.settles(0));
  EXPECT_FALSE(steps.control.finished());
}

TEST(DescentControl, CeresTolerancesLookAtTheLastStepAlone) {
  EXPECT_TRUE(Steps(1e-6, Settling::newton, false).control.finished());
  EXPECT_FALSE(Steps(1e-6, Settling::loose).control.finished());
}

/// Accepts steps with these changes of the cost, from 1 on, until the descent ends: how many.
int steps_until_end(SolverOptions options, Settling settling,
                    const std::function<double(int step)>& change, double step_norm = 1) {
  options.max_iterations = 2000;
  Summary summary;
  DescentControl control(options, summary);
  double cost = 1;
  control.start(cost, {.max = 1, .squared = 1});
  for (int step = 1; step <= 1000; ++step) {
    const double falls = change(step);
    cost -= falls;
    control.accepted({.cost_change = falls, .step_norm = step_norm}, cost, {.max = 1, .squared = 1},
                     1, settling);
    if (control.finished()) return step;
  }
  return 0;
}

// The last five changes count together, and the window of a descent that is younger is not full.
TEST(DescentControl, AWindowIsFiveSteps) {
  const SolverOptions options{.function_tolerance = 1e-6, .parameter_tolerance = 0};
  const auto after = [&](int large) {
    return steps_until_end(options, Settling::window,
                           [&](int step) { return step <= large ? 1e-3 : 1e-15; });
  };
  EXPECT_EQ(after(0), 5);
  EXPECT_EQ(after(1), 6);
  EXPECT_EQ(after(7), 12);
}

// Without a function tolerance the length of steps decides, whatever they gain.
TEST(DescentControl, AParameterToleranceServesAlone) {
  const SolverOptions options{.function_tolerance = 0, .parameter_tolerance = 1e-2};
  const auto gains = [](int) { return 1e-3; };
  EXPECT_EQ(steps_until_end(options, Settling::window, gains, 1e-1), 0);
  EXPECT_NE(steps_until_end(options, Settling::window, gains, 1e-3), 0);
}

// If only the tolerance of the gradient is set, a descent ends in rounding after nine steps that
// change the cost by no more than 64 units of it.
TEST(DescentControl, OnlyChangesThatRoundingHidesAreIdle) {
  const SolverOptions options{.function_tolerance = 0, .absolute_gradient_tolerance = 1e-300};
  const auto until = [&](double change) {
    return steps_until_end(options, Settling::window,
                           [change](int step) { return step % 2 == 0 ? change : -change; });
  };
  EXPECT_EQ(until(0), 9);
  EXPECT_EQ(until(0x1p-46), 9);
  EXPECT_EQ(until(0x1p-45), 0);
  EXPECT_EQ(until(1e-3), 0);
}

}  // namespace
}  // namespace topograd
