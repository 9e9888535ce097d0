// Minima at which residuals stay and their derivatives vanish: the linear model promises what the
// curvature of the residuals takes back.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace topograd {
namespace {

using Rows = std::function<void(Problem&, const Value&, const Value&, double)>;

/// Residuals of unknowns a / unit and b / unit, times `size`.
struct Curved {
  const char* name;
  Rows rows;
  double least;
};

constexpr int kPoints = 20;

double time_of(int k) { return 0.1 * k; }
double falling(int k) { return 0.3 - time_of(k) + 0.1 * std::sin(7.0 * k); }

/// Least cost of b − y over b.
double of_constant(const std::function<double(int)>& y) {
  double mean = 0, sum = 0;
  for (int k = 0; k < kPoints; ++k) mean += y(k) / kPoints;
  for (int k = 0; k < kPoints; ++k) sum += (y(k) - mean) * (y(k) - mean);
  return sum / 2;
}

/// Their least costs are at a = 0: a squared rate cannot follow data that turn the other way.
std::vector<Curved> curved() {
  const auto rising = [](int k) { return 1.3 - falling(k); };
  return {
      {"a² + 1",
       [](Problem& p, const Value& a, const Value&, double s) {
         p.add_residual(s * (square(a) + 1.0));
       },
       0.5},
      {"cosh a",
       [](Problem& p, const Value& a, const Value&, double s) { p.add_residual(s * cosh(a)); },
       0.5},
      {"2 − cos a, b − 3",
       [](Problem& p, const Value& a, const Value& b, double s) {
         p.add_residual(s * (2.0 - cos(a)));
         p.add_residual(s * (b - 3.0));
       },
       0.5},
      {"a² t + b",
       [](Problem& p, const Value& a, const Value& b, double s) {
         for (int k = 0; k < kPoints; ++k)
           p.add_residual(s * (square(a) * time_of(k) + b - falling(k)));
       },
       of_constant(falling)},
      {"b exp(−a² t)",
       [=](Problem& p, const Value& a, const Value& b, double s) {
         for (int k = 0; k < kPoints; ++k)
           p.add_residual(s * (b * exp(-square(a) * time_of(k)) - rising(k)));
       },
       of_constant(rising)},
  };
}

Summary solve_from(const Curved& one, double start, double unit, double size) {
  std::vector<double> x = {start * unit, start * unit};
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  one.rows(problem, unknowns[0] * (1 / unit), unknowns[1] * (1 / unit), size);
  return topograd::solve(problem, {.max_iterations = 200});
}

TEST(CurvedResiduals, EndAtTheirMinima) {
  for (const Curved& one : curved()) {
    for (const double start : {1.0, 0.1, 1e-4}) {
      for (const double unit : {1.0, 1e6, 1e-6}) {
        for (const double size : {1.0, 1e7, 1e-7}) {
          const Summary summary = solve_from(one, start, unit, size);
          const std::string where = std::string(one.name) + ", from " + std::to_string(start) +
                                    ", unit " + std::to_string(unit) + ", " + summary.message;
          EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
          EXPECT_NEAR(summary.final_cost / (size * size), one.least, 2e-6 * one.least) << where;
        }
      }
    }
  }
}

// The Hessian is positive on the way to an asymptote and to a point of inflection, too.
TEST(CurvedResiduals, AreNotAtAMinimumWhereTheirCurvatureVanishes) {
  std::vector<double> x = {1};
  Problem problem;
  problem.add_residual(cube(problem.add_parameters(x, 1)[0]) + 1.0);
  const Summary summary = topograd::solve(problem, {.max_iterations = 200});
  EXPECT_TRUE(summary.termination != Termination::CONVERGENCE || summary.final_cost < 1e-12)
      << summary.message << ", " << summary.final_cost;
}

}  // namespace
}  // namespace topograd
