// Asynchronous evaluations on the interpreter, and problems that do not support them.
#include "async_checks.hpp"

#include "../../../frontend/problem.hpp"
#include "../../../ir/error.hpp"

#include <utility>
#include <vector>

namespace topograd {
namespace {

TEST(Async, ResultsOnTheInterpreter) { test::check_async_results({.backend = Backend::cpu}); }

TEST(Async, TheCallerGoesOnWhileTheInterpreterRuns) {
  test::check_overlap({.backend = Backend::cpu, .threads = 1}, 150);
}

TEST(Async, ResultsAreTakenOnce) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(values);
  problem.add_residual(3 * p[0] * p[1]);
  Evaluator e(problem, {.backend = Backend::cpu});
  Async<double> cost = e.cost_async(values);
  Async<double> moved = std::move(cost);
  EXPECT_THROW(cost.ready(), Error);
  EXPECT_THROW(cost.get(), Error);
  EXPECT_EQ(moved.get(), 18);
  EXPECT_THROW(moved.ready(), Error);
  EXPECT_THROW(moved.get(), Error);
}

TEST(Async, ConstantScalarsHaveNoGradient) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(values);
  problem.add_residual(3 * p[0] * p[1]);
  problem.set_constant(p, 0);
  Evaluator e(problem, {.backend = Backend::cpu});
  EXPECT_EQ(e.gradient_async(values).get(), Eigen::Vector2d(0, 18));  // (3 x0 x1) 3 x0
}

}  // namespace
}  // namespace topograd
