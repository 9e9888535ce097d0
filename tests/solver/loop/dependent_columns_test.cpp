// Solves whose columns depend on each other nearly do not end before their minimum.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace topograd {
namespace {

/// Pairs u + v − 1, u + v + 1, weak (u − v) − 3, whose columns differ by 2 weak, along a chain that
/// keeps the differences alike. The least cost is the number of pairs.
Summary solve_pairs(std::size_t pairs, double weak, const SolverOptions& options) {
  std::vector<double> x(2 * pairs, 0.0);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < pairs; ++k) {
    const Value u = unknowns[2 * k], v = unknowns[2 * k + 1];
    problem.add_residual(u + v - 1.0);
    problem.add_residual(u + v + 1.0);
    problem.add_residual(weak * (u - v) - 3.0);
    if (k + 1 == pairs) break;
    const Value other = unknowns[2 * k + 2] - unknowns[2 * k + 3];
    problem.add_residual(1e-3 * weak * ((u - v) - other));
  }
  return topograd::solve(problem, options);
}

TEST(DependentColumns, LeadToTheMinimum) {
  using enum LinearSolver;
  for (const std::size_t pairs : {40, 200}) {
    for (const double weak : {1e-6, 1e-7, 1e-8}) {
      for (const LinearSolver linear : {automatic, cholesky, pcg, dense, schur}) {
        if (pairs == 200 && linear == dense) continue;
        SolverOptions options{
            .backend = Backend::cpu, .linear_solver = linear, .max_iterations = 100};
        const Summary summary = solve_pairs(pairs, weak, options);
        // Where the Jacobian is too large for QR, a factor of the normal equations only creeps.
        const bool creeps = pairs == 200 && weak == 1e-8 && linear == cholesky;
        const auto least = static_cast<double>(pairs);
        const std::string where = std::to_string(pairs) + " pairs, " + std::to_string(weak * 1e8) +
                                  ", " + std::string(name(linear)) + ": " + summary.message;
        EXPECT_EQ(summary.termination,
                  creeps ? Termination::NO_CONVERGENCE : Termination::CONVERGENCE)
            << where;
        if (!creeps) {
          EXPECT_NEAR(summary.final_cost, least, 1e-5 * least) << where;
        }
      }
      if (pairs == 200) continue;
      SolverOptions options{.components = Components::separate, .max_iterations = 100};
      EXPECT_NEAR(solve_pairs(pairs, weak, options).final_cost, 40, 4e-5) << weak;
    }
  }
}

/// Random rows whose unknowns meet only as sums, but for weak ones: after the first step the rest
/// of its error, in the sums, is as large as what the damping still hides.
TEST(DependentColumns, AreNotHiddenByTheDamping) {
  constexpr std::size_t kPairs = 60;
  constexpr double kWeak = 1e-7, kSize = 3;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> x(2 * kPairs, 0.0);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  const auto sum = [&](std::size_t k) { return unknowns[2 * k] + unknowns[2 * k + 1]; };
  double weakest = 0;  // cost of the weak rows at the start
  for (std::size_t i = 0; i < 4 * kPairs; ++i) {
    const std::size_t from = random() % kPairs, to = (from + 1 + random() % (kPairs - 1)) % kPairs;
    problem.add_residual(sum(from) - sum(to) - normal(random));
  }
  for (std::size_t k = 0; k < kPairs; ++k) {
    const double size = kSize * normal(random);
    weakest += size * size / 2;
    problem.add_residual(kWeak * (unknowns[2 * k] - unknowns[2 * k + 1]) - size);
  }
  for (const LinearSolver linear : {LinearSolver::cholesky, LinearSolver::pcg}) {
    std::fill(x.begin(), x.end(), 0.0);
    const Summary summary = topograd::solve(
        problem, {.backend = Backend::cpu, .linear_solver = linear, .max_iterations = 100});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    // All weak rows can be 0.
    EXPECT_LE(summary.final_cost, summary.initial_cost - 0.999 * weakest) << summary.message;
  }
}

enum class Unknowns { free, bounded, on_manifold };

/// Trends of yearly data in powers of the year itself, from ones: a linear problem whose columns
/// have a condition of 1e5 to 1e11.
Summary solve_trend(int degree, Unknowns kind, const SolverOptions& options) {
  const auto size = static_cast<std::size_t>(degree) + 1;
  std::vector<double> x(size, 1.0);
  Problem problem;
  const bool one_block = kind == Unknowns::on_manifold;
  const auto width = static_cast<int>(one_block ? size : 1);
  const Parameters all = problem.add_parameters(x, width);
  for (std::size_t k = 0; k < size && kind == Unknowns::bounded; ++k)
    problem.set_lower_bound(all, k, 0, -1e30);
  if (one_block)
    problem.set_manifold(all, Manifold::custom(width, width, [](auto from, auto delta) {
                           std::vector<Value> to(from.begin(), from.end());
                           for (std::size_t k = 0; k < to.size(); ++k)
                             to[k] = to[k] + delta[to.size() - 1 - k];
                           return to;
                         }));
  for (int year = 1990; year < 2020; ++year) {
    const double t = (year - 2005) / 15.0;
    const double y = 3 + 2 * t - 5 * t * t + t * t * t + 0.3 * std::sin(12.9898 * year);
    Value sum = -y;
    for (std::size_t k = 0; k < size; ++k) {
      const Value unknown = one_block ? all(0, static_cast<int>(k)) : all[k];
      sum = sum + unknown * std::pow(year, k);
    }
    problem.add_residual(sum);
  }
  return topograd::solve(problem, options);
}

// The costs of the same polynomials in years since 2005, by numpy.linalg.lstsq.
constexpr double kLeastOfSquare = 0.6409593342, kLeastOfCube = 0.5265187697,
                 kLeastOfFourth = 0.4190762515;

TEST(DependentColumns, OfPowersOfTheYearLeadToTheMinimum) {
  struct Trend {
    int degree;
    double least;
  };
  for (const auto& [degree, least] :
       {Trend{2, kLeastOfSquare}, Trend{3, kLeastOfCube}, Trend{4, kLeastOfFourth}}) {
    for (const Method method :
         {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg}) {
      for (const Unknowns kind : {Unknowns::free, Unknowns::bounded, Unknowns::on_manifold}) {
        for (const Components components : {Components::together, Components::separate}) {
          if (components == Components::separate && method == Method::dogleg) continue;
          const Summary summary = solve_trend(degree, kind,
                                              {.backend = Backend::cpu,
                                               .method = method,
                                               .components = components,
                                               .max_iterations = 200});
          const std::string where = std::to_string(degree) + ", " + std::string(name(method)) +
                                    ", unknowns of kind " + std::to_string(static_cast<int>(kind)) +
                                    (components == Components::separate ? ", separate: " : ": ") +
                                    summary.message;
          EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
          EXPECT_NEAR(summary.final_cost, least, 1e-2 * least) << where;
        }
      }
    }
  }
}

TEST(DependentColumns, OfPowersOfTheYearLeadOtherWaysToTheMinimum) {
  struct Way {
    Method method;
    LinearSolver linear;
  };
  for (const auto& [method, linear] :
       {Way{Method::newton, LinearSolver::automatic}, Way{Method::lbfgs, LinearSolver::automatic},
        Way{Method::levenberg_marquardt, LinearSolver::pcg},
        Way{Method::gauss_newton, LinearSolver::pcg}, Way{Method::dogleg, LinearSolver::pcg}}) {
    const Summary summary = solve_trend(3, Unknowns::free,
                                        {.backend = Backend::cpu,
                                         .method = method,
                                         .linear_solver = linear,
                                         .max_iterations = 200});
    const std::string where = std::string(name(method)) + ": " + summary.message;
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
    EXPECT_NEAR(summary.final_cost, kLeastOfCube, 1e-2 * kLeastOfCube) << where;
  }
}

/// Daily data over seconds since 1970, from ones: the start is 1e9 times too large, so that the
/// cost left is a small share of that at the start for many wrong lines.
TEST(DependentColumns, OfSecondsLeadToTheMinimum) {
  // By numpy.linalg.lstsq over standardised seconds.
  constexpr double kLeastOf[] = {3.5741988155, 3.5740220772};
  for (const std::size_t degree : {1, 2}) {
    for (const Method method :
         {Method::levenberg_marquardt, Method::newton, Method::lbfgs, Method::dogleg}) {
      std::vector<double> x(degree + 1, 1.0);
      Problem problem;
      const Parameters p = problem.add_parameters(x, 1);
      for (int day = 0; day < 60; ++day) {
        const double seconds = 1.6e9 + 86400.0 * day;
        Value sum = p[0] - (3 + 0.01 * day + 0.5 * std::sin(12.9898 * day));
        for (std::size_t k = 1; k <= degree; ++k) sum = sum + p[k] * std::pow(seconds, k);
        problem.add_residual(sum);
      }
      const Summary summary = topograd::solve(
          problem, {.backend = Backend::cpu, .method = method, .max_iterations = 200});
      const double least = kLeastOf[degree - 1];
      const std::string where =
          std::string(name(method)) + ", " + std::to_string(degree) + ": " + summary.message;
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
      EXPECT_NEAR(summary.final_cost, least, 1e-3 * least) << where;
    }
  }
}

/// An Arrhenius law by logarithms, log a - e / (R T) = log k, from a = 1: a grows to 1e13, so that
/// its derivative falls to 1e-13 of that at the start.
TEST(DependentColumns, MayBecomeSmallBesideTheirFirstNorms) {
  constexpr double kGas = 8.314;
  std::vector<double> x = {1, 1};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  for (double kelvin = 300; kelvin <= 370; kelvin += 10) {
    const double rate = 1e13 * std::exp(-80e3 / (kGas * kelvin));
    problem.add_residual(log(p[0]) - p[1] / (kGas * kelvin) - std::log(rate));
  }
  const Summary summary =
      topograd::solve(problem, {.backend = Backend::cpu, .max_iterations = 300});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_NEAR(std::log10(x[0]), 13, 1e-3) << summary.message;
  EXPECT_NEAR(x[1], 80e3, 10) << summary.message;
}

}  // namespace
}  // namespace topograd
