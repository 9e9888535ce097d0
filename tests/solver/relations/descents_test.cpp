// Ends of lbfgs and newton for sums of squares: far and tiny starts, saddles and valleys.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"
#include "../../support/judge.hpp"
#include "../../support/way.hpp"
#include "disguise.hpp"
#include "random_problems.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {
namespace {

using test::Way;

std::vector<Way> ways() {
  std::vector<Way> out;
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    SolverOptions options = {
        .backend = Backend::cpu, .method = Method::newton, .max_iterations = 500};
    options.precision = precision;
    const std::string in = " in " + std::string(name(precision));
    out.push_back({"newton" + in, options});
    options.linear_solver = LinearSolver::pcg;
    out.push_back({"newton pcg" + in, options});
    options.linear_solver = LinearSolver::automatic;
    options.method = Method::lbfgs;
    out.push_back({"lbfgs" + in, options});
  }
  return out;
}

/// The start `size` times 1, 1.3, 1.6, …
test::Disguise from(double size) {
  return {
      .start = [size](std::size_t k, double) { return size * (1 + 0.3 * static_cast<double>(k)); }};
}

/// Returns the cost that steps of least squares reach from where a solve has ended.
double cost_beyond(Problem& problem) {
  return solve(problem,
               {.backend = Backend::cpu, .max_iterations = 5000, .function_tolerance = 1e-13})
      .final_cost;
}

// Kinds without tails in which the cost is flat, and without minima at infinity.
constexpr std::array<std::string_view, 13> kKinds = {
    "linear", "collinear",  "deficient", "waves",    "huber", "decay", "chain",
    "poses",  "dense tanh", "products",  "parallel", "exact", "valley"};

TEST(Descents, ConvergenceFromOtherStartsIsAMinimum) {
  const char* const asked = std::getenv("TOPOGRAD_VERDICT_PROBLEMS");
  const unsigned count = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 69;
  for (unsigned seed = 0; seed < count; ++seed) {
    const auto p = test::random_problem(seed);
    const bool has_bounds = !p->problem.lower_bounds().empty();  // starts would lie beyond them
    if (has_bounds || std::ranges::find(kKinds, p->kind) == kKinds.end()) continue;
    for (const double size : {1e-15, 1e-3, 1e3}) {
      for (const Way& way : ways()) {
        test::Disguised other(p->problem, from(size));
        const Summary summary = solve(other.problem(), way.options);
        const std::string where = p->name() + ", " + way.name + ", start " + std::to_string(size) +
                                  ": " + summary.message;
        EXPECT_NE(summary.termination, Termination::FAILURE) << where;
        if (summary.termination != Termination::CONVERGENCE) continue;
        EXPECT_EQ(test::contradiction(other.problem(), way.options, summary), "") << where;
        EXPECT_LE(summary.final_cost,
                  cost_beyond(other.problem()) * (1 + 1e-4) + 1e-14 * summary.initial_cost)
            << where;
      }
    }
  }
}

// The Jacobian of the last check is one of f64 in mixed precision, too: its steps lead along
// columns that differ by less than 1e-7. Newton's ended 1e-3 of the cost too high.
TEST(Descents, MixedPrecisionEndsWhereF64Does) {
  for (const unsigned seed : {8u, 54u}) {
    std::vector<double> costs;
    for (const Way& way : ways()) {
      if (!way.name.starts_with("newton in")) continue;
      const auto p = test::random_problem(seed);
      test::Disguised other(p->problem, from(1e-3));
      costs.push_back(solve(other.problem(), way.options).final_cost);
    }
    ASSERT_EQ(costs.size(), 2u);
    EXPECT_NEAR(costs[1], costs[0], 1e-6 * costs[0]) << seed;
  }
}

/// Sets the residuals of one of three fits in which unknowns enter by squares or products, in other
/// units of them.
void add_fit(Problem& problem, const Parameters& x, int kind, double unit) {
  for (int i = 0; i < 20; ++i) {
    const double t = 3.0 * i / 19, y = 2 * std::exp(-0.5 * t);
    if (kind == 0) problem.add_residual(square(x[0] / unit) - 1.0);
    if (kind == 1) problem.add_residual(x[1] * exp(square(x[0] / unit) * -t) - y);
    if (kind == 2) problem.add_residual(x[1] * exp((x[0] / unit) * (x[2] / unit) * -t) - y);
  }
}

// The gradient is zero at a start of 0, and steps in the other unknowns lead to a saddle from
// 1e-17: second derivatives lead away. The data are exact.
TEST(Descents, ASaddleIsNoMinimum) {
  for (const Way& way : ways()) {
    for (const int kind : {0, 1, 2}) {
      for (const double start : {0.0, 1e-300, 1e-17, 1e-9, -1e-17}) {
        for (const double unit : {1.0, 1e12, 1e-12}) {
          std::vector<double> x = {start * unit, 1, start * unit};
          Problem problem;
          add_fit(problem, problem.add_parameters(x), kind, unit);
          const Summary summary = solve(problem, way.options);
          const std::string where = way.name + ", fit " + std::to_string(kind) + ", start " +
                                    std::to_string(start) + ", unit " + std::to_string(unit) +
                                    ": " + summary.message;
          EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
          EXPECT_LT(summary.final_cost, 1e-9 * summary.initial_cost) << where;
        }
      }
    }
  }
}

/// Sets residuals whose derivatives by unknowns are 0 at a start of 0, without being flat there.
void add_kink(Problem& problem, const Parameters& x, int kind, double unit) {
  const Value a = x[0] / unit, b = x[1] / unit;
  switch (kind) {
    case 0: problem.add_residual(abs(a) - 1.0); break;
    case 1: problem.add_residual({hypot(a, b) - 2.0, a - b}); break;
    case 2: problem.add_residual(square(square(a)) - 1.0); break;
    case 3: problem.add_residual({abs(a) - 1.0, abs(b) - 3.0, 0.1 * a * b}); break;
    case 4:
      for (int i = 0; i < 9; ++i)
        problem.add_residual(abs(0.5 * i * a + b) - std::abs(0.5 * i * 2 - 3));
      break;
    default: problem.add_residual({max(abs(a), abs(b)) - 1.0, 0.5 * (a - b)});
  }
}

// At a kink the derivative counts as 0, also at one that is a maximum, and second derivatives say
// nothing: the cost beside it does.
TEST(Descents, AKinkThatIsAMaximumIsNoMinimum) {
  std::vector<Way> all = ways();
  for (const Method method : {Method::levenberg_marquardt, Method::dogleg, Method::gauss_newton}) {
    all.push_back({std::string(name(method)), {.backend = Backend::cpu, .method = method}});
    if (method != Method::levenberg_marquardt) continue;
    all.push_back(
        {"pcg", {.backend = Backend::cpu, .method = method, .linear_solver = LinearSolver::pcg}});
  }
  for (const Way& way : all) {
    for (int kind = 0; kind < 6; ++kind) {
      for (const double unit : {1.0, 1e12, 1e-12}) {
        std::vector<double> x = {0, 0};
        Problem problem;
        add_kink(problem, problem.add_parameters(x), kind, unit);
        SolverOptions options = way.options;
        const Summary summary = solve(problem, options);
        const std::string where = way.name + ", kink " + std::to_string(kind) + ", unit " +
                                  std::to_string(unit) + ": " + summary.message;
        EXPECT_GT(summary.num_successful_steps, 0) << where;
        EXPECT_LT(summary.final_cost, (kind == 4 ? 0.5 : 0.1) * summary.initial_cost) << where;
      }
    }
  }
}

// A kink that is a minimum is one, and so is an unknown that nothing reads.
TEST(Descents, AKinkThatIsAMinimumIsOne) {
  std::vector<Way> all = ways();
  all.push_back({"lm", {.backend = Backend::cpu}});
  for (const Way& way : all) {
    for (const double unit : {1.0, 1e12, 1e-12}) {
      std::vector<double> x = {0, 3 * unit};
      Problem problem;
      problem.add_residual(abs(problem.add_parameters(x)[0] / unit) + 1.0);
      const Summary summary = solve(problem, way.options);
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << way.name << summary.message;
      EXPECT_EQ(x, (std::vector<double>{0, 3 * unit})) << way.name;
    }
  }
}

// Two terms that are the same stay so along every gradient, down to a saddle at which their columns
// are equal.
TEST(Descents, EqualTermsArePartedAtASaddle) {
  for (const Way& way : ways()) {
    std::vector<double> x = {1, 1, 1, 1};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    for (int i = 0; i < 50; ++i) {
      const double t = 4.0 * i / 49;
      problem.add_residual(u[0] * exp(u[1] * -t) + u[2] * exp(u[3] * -t) -
                           (2 * std::exp(-0.5 * t) + std::exp(-3 * t)));
    }
    const Summary summary = solve(problem, way.options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << way.name << summary.message;
    EXPECT_LT(summary.final_cost, 1e-6 * summary.initial_cost) << way.name << summary.message;
  }
}

// a exp(−b t) + c with a at 0 and b far out: a step in b promises so much that no damped step in
// all unknowns is one in a, which takes nearly all of the cost. It said CONVERGENCE at 2.356.
TEST(Descents, OneUnknownHidesNoOther) {
  const auto p = test::random_problem(330);
  ASSERT_EQ(p->kind, "decay");
  test::Disguised other(p->problem, from(1e-15));
  const Summary summary = solve(
      other.problem(), {.backend = Backend::cpu, .method = Method::lbfgs, .max_iterations = 500});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_NEAR(summary.final_cost, 0.0050268, 1e-6);
}

// Factors of products drift apart, 1e-8 and 1e7, where steps along the valley between them bring
// next to nothing, but its other end is a fifth lower.
TEST(Descents, ACurvedValleyIsNoMinimum) {
  for (const unsigned seed : {14u, 37u}) {
    for (const Way& way : ways()) {
      const auto p = test::random_problem(seed);
      ASSERT_EQ(p->kind, "products");
      test::Disguised other(p->problem, from(1e-15));
      const Summary summary = solve(other.problem(), way.options);
      const double best = cost_beyond(p->problem);
      if (summary.final_cost > best * (1 + 1e-3)) {
        EXPECT_EQ(summary.termination, Termination::NO_CONVERGENCE) << way.name;
        EXPECT_NE(summary.message.find("a curved valley"), std::string::npos) << summary.message;
      }
    }
  }
}

// A minimum at which residuals stay large, so that the linear model promises what the cost does not
TEST(Descents, ResidualsThatStayAreAMinimum) {
  for (const Way& way : ways()) {
    std::vector<double> x = {0.3};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.add_residual(2.0 + square(u[0]));
    problem.add_residual(0.01 * u[0] - 1.0);
    const Summary summary = solve(problem, way.options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << way.name << summary.message;
    // 2 x (2 + x²) + 0.01 (0.01 x − 1) = 0.
    EXPECT_NEAR(x[0], 0.01 / 4.0001, 1e-4) << way.name;
  }
}

}  // namespace
}  // namespace topograd
