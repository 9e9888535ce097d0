// Steps within bounds on the interpreter, by its conjugate gradients.
#include <gtest/gtest.h>

#include "../../../solver/linear/projected_step.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "box_cases.hpp"

namespace topograd::test {
namespace {

TEST(Box, AMembraneOverAnObstacle) {
  check_obstacle({.backend = Backend::cpu}, 1e-7);
  check_obstacle({.backend = Backend::cpu, .precision = Precision::mixed}, 1e-7);
}

TEST(Box, StepsAreThoseOfTheHost) {
  check_against_host_steps({.backend = Backend::cpu});
  check_against_host_steps({.backend = Backend::cpu, .precision = Precision::mixed});
  check_against_host_steps({.backend = Backend::cpu, .precision = Precision::f32});
}

TEST(Box, BoundsHoldExactly) {
  for (const Precision precision : {Precision::f64, Precision::f32, Precision::mixed})
    check_bounds_hold_exactly({.backend = Backend::cpu, .precision = precision});
}

TEST(Box, TrialsAreShortenedUntilTheCostFallsEnough) {
  // From a cost of 1 with slope −1. The parabola through the first trial, 1 + c at length 1, has
  // its minimum at 1 / (2 (c + 1)).
  struct Row {
    const char* name;
    double (*cost)(double length);
    std::vector<double> lengths;  // requested lengths
    double trial;
  };
  const Row rows[] = {
      {"enough", [](double) { return 0.9; }, {}, 0.9},
      {"a parabola", [](double t) { return 1 - t + 2 * t * t; }, {0.25}, 0.875},
      {"no shorter than a thousandth", [](double t) { return t > 0.01 ? 1e9 : 0.5; }, {1e-3}, 0.5},
      {"no longer than six tenths",
       [](double t) { return t > 0.7 ? 1 - 1e-5 * t : 0.5; },
       {0.5000025},
       0.5},
      {"no value", [](double t) { return t > 0.3 ? std::nan("") : 0.5; }, {0.5, 0.25}, 0.5}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<double> lengths;
    const auto move = [&](double length) {
      lengths.push_back(length);
      return runtime::StepReport{.step_norm = length, .trial_cost = row.cost(length)};
    };
    const runtime::StepReport full{.model_decrease = 0.5,
                                   .step_norm = 1,
                                   .trial_cost = row.cost(1),
                                   .slope = -1,
                                   .linear_iterations = 3};
    const runtime::StepReport found = search_projected(1, full, move);
    ASSERT_EQ(lengths.size(), row.lengths.size());
    for (std::size_t k = 0; k < lengths.size(); ++k) EXPECT_NEAR(lengths[k], row.lengths[k], 1e-5);
    EXPECT_EQ(found.trial_cost, row.trial);
    EXPECT_EQ(found.step_norm, lengths.empty() ? 1 : lengths.back());
    EXPECT_EQ(found.model_decrease, 0.5);
    EXPECT_EQ(found.linear_iterations, 3);
  }
}

TEST(Box, ATrialThatNothingHelpsIsTheWholeStep) {
  double last = 0;
  int calls = 0;
  const auto move = [&](double length) {
    ++calls;
    last = length;
    return runtime::StepReport{.step_norm = length, .trial_cost = 2};
  };
  const runtime::StepReport found = search_projected(1, {.trial_cost = 2, .slope = -1}, move);
  EXPECT_EQ(calls, 21);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(found.trial_cost, 2);
}

}  // namespace
}  // namespace topograd::test
