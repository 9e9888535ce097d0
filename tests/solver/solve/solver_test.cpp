// Solver: each solve gives the result of a fresh one, after any changes.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"

#include <stdexcept>

#include "solver_cases.hpp"

namespace topograd {
namespace {

using test::Rope;

TEST(Solver, SolvesAsIfFresh) {
  for (const LinearSolver linear : {LinearSolver::cholesky, LinearSolver::pcg}) {
    for (const Precision precision : {Precision::f64, Precision::mixed}) {
      SCOPED_TRACE(std::string(name(linear)) + (precision == Precision::f64 ? "" : ", mixed"));
      test::expect_same_as_fresh_solves(
          {.backend = Backend::cpu, .precision = precision, .linear_solver = linear});
    }
  }
  test::expect_same_as_fresh_solves({.backend = Backend::cpu, .method = Method::dogleg});
  test::expect_same_as_fresh_solves({.backend = Backend::cpu, .domain = DomainPolicy::guarded});
}

TEST(Solver, GoesOnAfterAnError) {
  Rope rope(10);
  bool fails = true;
  int calls = 0;
  SolverOptions options = {.backend = Backend::cpu};
  options.callback = [&](const IterationSummary&) {
    if (++calls == 2 && fails) throw std::runtime_error("enough");
    return CallbackReturn::SOLVER_CONTINUE;
  };
  Solver solver(rope.problem, options);
  EXPECT_THROW(solver.solve(), std::runtime_error);
  EXPECT_NE(rope.x, rope.start);  // the first step was taken
  fails = false;
  Rope fresh(10);
  fresh.x = rope.x;
  EXPECT_EQ(solver.solve().final_cost, solve(fresh.problem, {.backend = Backend::cpu}).final_cost);
}

TEST(Solver, CountsTheWorkOfEachSolve) {
  Rope rope(10);
  Solver solver(rope.problem, {.backend = Backend::cpu});
  const Summary first = solver.solve();
  rope.x = rope.start;
  const Summary second = solver.solve();
  EXPECT_EQ(second.num_iterations(), first.num_iterations());
  EXPECT_EQ(second.kernels_on_cpu, first.kernels_on_cpu);
  EXPECT_GT(second.kernels_on_cpu, 0u);
}

TEST(Solver, RefusesOptionsAtOnce) {
  Rope rope(10);
  EXPECT_THROW(Solver(rope.problem, {.max_iterations = -1}), Error);
}

}  // namespace
}  // namespace topograd
