// Solves that converge where the cost decreases on both sides, and solves that do not.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace topograd {
namespace {

using Energy = std::function<Value(const Value& x, const Value& y)>;

struct Row {
  const char* name;
  Energy energy;   ///< least at x = 1; the derivative by y is 0 at y = 0, where solves start
  double minimum;  ///< for any y
  int escapes;
};

const Row kRows[] = {
    {"a concave kink",
     [](const Value& x, const Value& y) { return square(x - 1.0) - abs(y) + square(y); }, -0.25, 1},
    {"a saddle",
     [](const Value& x, const Value& y) {
       return square(x - 1.0) - 4.0 * square(y) + square(square(y));
     },
     -4, 1},
    {"a convex kink", [](const Value& x, const Value& y) { return square(x - 1.0) + abs(y); }, 0,
     0},
    {"a minimum", [](const Value& x, const Value& y) { return square(x - 1.0) + square(y); }, 0, 0},
};

struct Plane {
  explicit Plane(const Energy& energy) { problem.add_energy(energy(p[0], p[1])); }

  std::vector<double> x = {0, 0};
  Problem problem;
  Parameters p = problem.add_parameters(x);
};

TEST(Escape, LeavesWhatIsNoMinimumAndNothingElse) {
  for (const Method method : {Method::lbfgs, Method::newton}) {
    for (const Row& row : kRows) {
      SCOPED_TRACE(std::string(row.name) + " by " + std::string(name(method)));
      Plane plane(row.energy);
      const Summary summary = solve(
          plane.problem, {.backend = Backend::cpu, .method = method, .function_tolerance = 1e-12});
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      EXPECT_EQ(summary.num_escapes, row.escapes);
      EXPECT_NEAR(summary.final_cost, row.minimum, 1e-4);
      EXPECT_NEAR(plane.x[0], 1, 1e-3);
      int steps = -1;
      for (const IterationSummary& step : summary.iterations) EXPECT_EQ(step.iteration, ++steps);
    }
  }
}

TEST(Escape, CanBeSwitchedOff) {
  Plane plane(kRows[0].energy);
  const Summary summary = solve(plane.problem, {.backend = Backend::cpu, .max_escapes = 0});
  EXPECT_EQ(summary.num_escapes, 0);
  EXPECT_EQ(plane.x[1], 0);
}

TEST(Escape, HoldsWhatIsConstant) {
  Plane plane(kRows[0].energy);
  plane.problem.set_constant(plane.p, 1);
  const Summary summary = solve(plane.problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.num_escapes, 0);
  EXPECT_EQ(plane.x[1], 0);
}

TEST(Escape, IsAStepThatCallbacksSeeAndMayEnd) {
  Plane plane(kRows[0].energy);
  bool escaped = false;
  SolverOptions options = {.backend = Backend::cpu};
  options.callback = [&](const IterationSummary& step) {
    escaped = escaped || (step.iteration > 0 && step.step_size == 0);
    return escaped ? CallbackReturn::SOLVER_ABORT : CallbackReturn::SOLVER_CONTINUE;
  };
  const Summary summary = solve(plane.problem, options);
  EXPECT_EQ(summary.termination, Termination::USER_FAILURE) << summary.message;
  EXPECT_EQ(summary.num_escapes, 1);
  EXPECT_NE(plane.x[1], 0);
  EXPECT_LT(summary.final_cost, 0);
}

}  // namespace
}  // namespace topograd
