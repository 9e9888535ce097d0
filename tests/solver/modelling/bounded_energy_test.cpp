// Energies within bounds: published minima of Hock and Schittkowski, and maximum likelihood with
// closed forms.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Hock & Schittkowski, Test Examples for Nonlinear Programming Codes (1981): those with bounds
/// only.
struct HockSchittkowski {
  const char* name;
  std::vector<double> start, lower, upper;
  std::function<Value(const Parameters& x)> cost;
  double minimum;
  std::vector<double> at;  ///< empty: not compared
};

Value rosenbrock(const Parameters& x) {
  return 100.0 * square(x[1] - x[0] * x[0]) + square(1.0 - x[0]);
}

std::vector<HockSchittkowski> problems() {
  const double pi = std::numbers::pi;
  const double a = std::sqrt(598.0 / 1200), b = 400 * a * a * a;
  const double hs2 = 2 * a * std::cos(std::acos(1 / b) / 3);
  return {
      {"1", {-2, 1}, {-kInf, -1.5}, {kInf, kInf}, rosenbrock, 0, {1, 1}},
      // From the published start (−2, 1.5) descent leads to the other minimum, 4.9412.
      {"2", {2, 1.5}, {-kInf, 1.5}, {kInf, kInf}, rosenbrock, 0.0504261879, {hs2, 1.5}},
      {"3",
       {10, 1},
       {-kInf, 0},
       {kInf, kInf},
       [](const Parameters& x) { return x[1] + 1e-5 * square(x[1] - x[0]); },
       0,
       {}},
      {"4",
       {1.125, 0.125},
       {1, 0},
       {kInf, kInf},
       [](const Parameters& x) { return cube(x[0] + 1.0) / 3.0 + x[1]; },
       8.0 / 3,
       {1, 0}},
      {"5",
       {0, 0},
       {-1.5, -3},
       {4, 3},
       [](const Parameters& x) {
         return sin(x[0] + x[1]) + square(x[0] - x[1]) - 1.5 * x[0] + 2.5 * x[1] + 1.0;
       },
       -std::sqrt(3.0) / 2 - pi / 3,
       {-pi / 3 + 0.5, -pi / 3 - 0.5}},
      {"38",
       {-3, -1, -3, -1},
       {-10, -10, -10, -10},
       {10, 10, 10, 10},
       [](const Parameters& x) {
         return 100.0 * square(x[1] - x[0] * x[0]) + square(1.0 - x[0]) +
                90.0 * square(x[3] - x[2] * x[2]) + square(1.0 - x[2]) +
                10.1 * (square(x[1] - 1.0) + square(x[3] - 1.0)) +
                19.8 * (x[1] - 1.0) * (x[3] - 1.0);
       },
       0,
       {1, 1, 1, 1}},
      {"45",
       {0.5, 1, 1.5, 2, 2.5},
       {0, 0, 0, 0, 0},
       {1, 2, 3, 4, 5},
       [](const Parameters& x) { return 2.0 - x[0] * x[1] * x[2] * x[3] * x[4] / 120.0; },
       1,
       {1, 2, 3, 4, 5}},
  };
}

TEST(BoundedEnergies, ReachPublishedMinima) {
  for (const HockSchittkowski& row : problems()) {
    for (const Method method : {Method::lbfgs, Method::newton}) {
      for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::pcg}) {
        if (method == Method::lbfgs && solver == LinearSolver::pcg) continue;
        SCOPED_TRACE(std::string("problem ") + row.name + " by " + std::string(name(method)) +
                     " and " + std::string(name(solver)));
        std::vector<double> values = row.start;
        Problem problem;
        const Parameters x = problem.add_parameters(values);
        for (std::size_t k = 0; k < values.size(); ++k)
          problem.set_bounds(x, k, 0, row.lower[k], row.upper[k]);
        problem.add_energy(row.cost(x));
        const Summary summary = solve(problem, {.backend = Backend::cpu,
                                                .method = method,
                                                .linear_solver = solver,
                                                .max_iterations = 500,
                                                .function_tolerance = 1e-14});
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
        EXPECT_NEAR(summary.final_cost, row.minimum, 1e-8);
        for (std::size_t k = 0; k < values.size(); ++k) {
          EXPECT_GE(values[k], row.lower[k]);
          EXPECT_LE(values[k], row.upper[k]);
          if (!row.at.empty()) {
            EXPECT_NEAR(values[k], row.at[k], 1e-5);
          }
        }
      }
    }
  }
}

/// −log likelihood of a normal distribution with a lower bound on the deviation: the mean is that
/// of the sample, the deviation that of the sample or the bound.
TEST(BoundedEnergies, NormalDistributionByMaximumLikelihood) {
  const std::vector<double> sample = {2.1, 1.9, 2.4, 1.7, 2.05, 2.2};
  double mean = 0, variance = 0;
  for (const double y : sample) mean += y / 6;
  for (const double y : sample) variance += (y - mean) * (y - mean) / 6;
  for (const double least : {1e-3, 0.5}) {
    std::vector<double> values = {0, 1};
    Problem problem;
    const Parameters x = problem.add_parameters(values);
    problem.set_lower_bound(x, 1, 0, least);
    for (const double y : sample) problem.add_energy(log(x[1]) + square((x[0] - y) / x[1]) / 2.0);
    const Summary summary = solve(
        problem, {.backend = Backend::cpu, .max_iterations = 200, .function_tolerance = 1e-14});
    EXPECT_EQ(summary.method, Method::lbfgs);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(values[0], mean, 1e-6);
    EXPECT_NEAR(values[1], std::max(std::sqrt(variance), least), 1e-6);
  }
}

/// Many coordinates, some of which end on their bounds: x_k = clamp(c_k) for a separable cost, and
/// the conditions of optimality for a coupled one.
TEST(BoundedEnergies, ActiveSetsOfManyCoordinates) {
  for (const Method method : {Method::lbfgs, Method::newton}) {
    SCOPED_TRACE(name(method));
    constexpr std::size_t kCount = 400;
    std::vector<double> values(kCount, 0.5), target(kCount);
    for (std::size_t k = 0; k < kCount; ++k) target[k] = 2 * std::sin(0.7 * static_cast<double>(k));
    Problem problem;
    const Parameters x = problem.add_parameters(values);
    for (std::size_t k = 0; k < kCount; ++k) {
      problem.set_bounds(x, k, 0, 0, 1);
      problem.add_energy(exp(x[k] - target[k]) - x[k] + target[k]);
    }
    const Summary summary = solve(problem, {.backend = Backend::cpu,
                                            .method = method,
                                            .max_iterations = 300,
                                            .function_tolerance = 1e-15});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    for (std::size_t k = 0; k < kCount; ++k)
      EXPECT_NEAR(values[k], std::min(std::max(target[k], 0.0), 1.0), 1e-5) << k;
  }
}

TEST(BoundedEnergies, AreRefusedByNameWhereNoMethodKnowsThem) {
  std::vector<double> values = {0.5};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  problem.set_bounds(x, 0, 0, 0, 1);
  problem.add_energy(square(x[0] - 2.0));
  try {
    solve(problem, {.backend = Backend::cpu, .method = Method::adam});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    EXPECT_STREQ(error.what(), "solve: adam knows no bounds; expected one of lbfgs, newton");
  }
  values[0] = 3;
  EXPECT_THROW(solve(problem, {.backend = Backend::cpu}), Error);  // starts outside the bounds
}

}  // namespace
}  // namespace topograd
