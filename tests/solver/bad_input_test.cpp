// Problems that are not well posed: they end with a reason, and the caller's parameters hold the
// best accepted point.
#include <gtest/gtest.h>

#include <topograd/solver/evaluator.hpp>
#include <topograd/solver/solve.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace topograd {
namespace {

double cost_at(Problem& problem) { return Evaluator(problem, {.backend = Backend::cpu}).cost(); }

TEST(BadInput, WhatLacksRankIsSolvedByEverySolver) {
  for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg}) {
    for (const LinearSolver linear : {LinearSolver::automatic, LinearSolver::pcg,
                                      LinearSolver::cholesky, LinearSolver::dense}) {
      if (method == Method::dogleg && linear == LinearSolver::pcg) continue;  // one factorisation
      SCOPED_TRACE(std::string(name(method)) + " " + std::string(name(linear)));
      std::vector<double> x = {1, 5, 7};
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      problem.add_residual(p[0] + p[1] - 3.0);
      problem.add_residual((p[0] + p[1]) * 2.0 - 6.0);  // says the same; nothing holds p[2]
      problem.add_residual(p[2] * 0.0);
      const Summary summary =
          solve(problem, {.backend = Backend::cpu, .method = method, .linear_solver = linear});
      EXPECT_TRUE(summary.is_solution_usable()) << summary.message;
      EXPECT_NE(summary.message, "");
      EXPECT_NEAR(x[0] + x[1], 3, 1e-6);
      EXPECT_EQ(x[2], 7);
      EXPECT_NEAR(cost_at(problem), summary.final_cost, 1e-12);
    }
  }
}

TEST(BadInput, WhereThereIsNoSlopeTheStartIsTheAnswer) {
  std::vector<double> x = {0};
  Problem problem;
  problem.add_residual(square(problem.add_parameters(x)[0]) + 1.0);
  const Summary summary = solve(problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
  EXPECT_EQ(summary.message.rfind("gradient tolerance reached", 0), 0u) << summary.message;
  EXPECT_EQ(x[0], 0);
}

TEST(BadInput, StepsToWhereNothingIsFiniteAreNotTaken) {
  std::vector<double> x = {1};
  Problem problem;
  // The least value is at 0, the slope grows without bound towards it, and left of it is nothing.
  problem.add_residual(sqrt(problem.add_parameters(x)[0]) + 1.0);
  const Summary summary = solve(problem, {.backend = Backend::cpu, .max_iterations = 100});
  EXPECT_GE(summary.num_nonfinite_steps, 1) << summary.message;
  EXPECT_LT(summary.final_cost, summary.initial_cost);
  EXPECT_GE(x[0], 0);
  EXPECT_NEAR(cost_at(problem), summary.final_cost, 1e-12);
  for (const IterationSummary& i : summary.iterations) EXPECT_TRUE(std::isfinite(i.cost));
}

}  // namespace
}  // namespace topograd
