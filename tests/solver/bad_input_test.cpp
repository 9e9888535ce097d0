// Problems that are not well posed: they end with a reason, and the caller's parameters hold the
// best accepted point.
#include <gtest/gtest.h>

#include <topograd/ir/error.hpp>
#include <topograd/solver/evaluator.hpp>
#include <topograd/solver/solve.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
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

TEST(BadInput, AnExceptionInACallbackLeavesTheBestPointOfEveryMethod) {
  const struct {
    Method method;
    LinearSolver linear;
    bool bounded = false;
  } rows[] = {{Method::levenberg_marquardt, LinearSolver::cholesky},
              {Method::levenberg_marquardt, LinearSolver::pcg},
              {Method::levenberg_marquardt, LinearSolver::pcg, true},
              {Method::levenberg_marquardt, LinearSolver::dense},
              {Method::gauss_newton, LinearSolver::automatic},
              {Method::dogleg, LinearSolver::automatic},
              {Method::lbfgs, LinearSolver::automatic},
              {Method::newton, LinearSolver::cholesky},
              {Method::adam, LinearSolver::automatic},
              {Method::sgd, LinearSolver::automatic}};
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(name(row.method)) + " " + std::string(name(row.linear)));
    const auto run = [&](std::vector<double>& x, double& best, bool throws) {
      Problem problem;
      const Parameters p = problem.add_parameters(x);
      problem.add_residual(10.0 * (p[1] - square(p[0])));
      problem.add_residual(1.0 - p[0]);
      if (row.bounded) problem.set_upper_bound(p, 0, 0, 0.5);
      SolverOptions options{.backend = Backend::cpu,
                            .method = row.method,
                            .linear_solver = row.linear,
                            .max_iterations = 12,
                            .first_order = {.learning_rate = 1e-3}};
      options.callback = [&](const IterationSummary& i) {
        best = i.iteration == 0 ? i.cost : std::min(best, i.cost);
        if (throws && i.iteration == 12) throw std::runtime_error("enough");
        return CallbackReturn::SOLVER_CONTINUE;
      };
      if (!throws) return void(solve(problem, options));
      EXPECT_THROW(solve(problem, options), std::runtime_error);
      EXPECT_NEAR(cost_at(problem), best, 1e-12 * best);
    };
    std::vector<double> thrown = {-1.2, 1}, ended = thrown;
    double best = 0;
    run(thrown, best, true);
    run(ended, best, false);
    EXPECT_EQ(thrown, ended);
    EXPECT_NE(thrown[0], -1.2);
  }
}

TEST(BadInput, RefusalsNameTheCulprit) {
  std::vector<double> x = {1, 2, 3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const struct {
    std::function<void()> call;
    const char* says;
  } rows[] = {
      {[&] { problem.add_residual(p[0], {.loss = huber(-1), .label = {}}); }, "-1"},
      {[&] { problem.add_residual(p[0], {.loss = scaled(huber(1), -2), .label = {}}); }, "-2"},
      {[&] {
         problem.add_residual(p[0] - 1.0);
         problem.set_bounds(p, 1, 0, 3, 2);
         solve(problem, {.backend = Backend::cpu});
       },
       "block 1, coordinate 0 has infeasible bounds [3, 2]"},
  };
  for (const auto& row : rows) {
    try {
      row.call();
      FAIL() << row.says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.says), std::string::npos) << error.what();
    }
    EXPECT_EQ(x, (std::vector<double>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace topograd
