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

TEST(Solver, EvaluatesWithTheEngineOfItsSolves) {
  for (const Loss& loss : {Loss(), Loss::huber(0.1)}) {
    Rope rope(10), fresh(10);
    rope.problem.add_residual(rope.points(1, 0) - 0.5, {.loss = loss});
    fresh.problem.add_residual(fresh.points(1, 0) - 0.5, {.loss = loss});
    rope.problem.set_constant(rope.points, 2);
    fresh.problem.set_constant(fresh.points, 2);
    const SolverOptions options = {.backend = Backend::cpu};
    Solver solver(rope.problem, options);
    Evaluator evaluator(fresh.problem, options);
    std::vector<double> at = rope.start;
    for (double& number : at) number += 0.01;
    const Wanted all = {.cost = true, .residuals = true, .gradient = true};
    const auto expect_same = [&] {
      const Evaluation expected = evaluator.evaluate(at, all), found = solver.evaluate(at, all);
      EXPECT_DOUBLE_EQ(found.cost, expected.cost);
      EXPECT_EQ(found.residuals, expected.residuals);
      EXPECT_EQ(found.gradient, expected.gradient);
    };
    expect_same();
    EXPECT_EQ(rope.x, rope.start);
    // The solve begins at the parameters, not where values were asked for, and nothing else
    // changes.
    const Summary kept = solver.solve(), alone = solve(fresh.problem, options);
    EXPECT_EQ(kept.final_cost, alone.final_cost);
    EXPECT_EQ(kept.num_iterations(), alone.num_iterations());
    EXPECT_EQ(rope.x, fresh.x);
    expect_same();
    EXPECT_EQ(solver.evaluate(at, {.cost = true, .gradient = false}).gradient.size(), 0);
  }
}

TEST(Solver, RefusesEvaluations) {
  Rope rope(10);
  Solver solver(rope.problem, {.backend = Backend::cpu});
  EXPECT_THROW(solver.evaluate(std::vector<double>(3)), Error);
  rope.problem.add_equality(rope.points(0, 0) - 1.0);
  try {
    solver.evaluate(rope.x);
    ADD_FAILURE() << "evaluated a problem with constraints";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
  }
}

TEST(Solver, RefusesOptionsAtOnce) {
  Rope rope(10);
  EXPECT_THROW(Solver(rope.problem, {.max_iterations = -1}), Error);
}

}  // namespace
}  // namespace topograd
