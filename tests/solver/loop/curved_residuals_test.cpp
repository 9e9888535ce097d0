// Minima at which residuals stay and their derivatives vanish: the linear model promises what the
// curvature of the residuals takes back.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"
#include "../../support/way.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
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
///
///   other_order  of their points
std::vector<Curved> curved(bool other_order = false) {
  const auto point = [=](int k) { return other_order ? kPoints - 1 - k : k; };
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
       [=](Problem& p, const Value& a, const Value& b, double s) {
         for (int k = 0; k < kPoints; ++k)
           p.add_residual(s * (square(a) * time_of(point(k)) + b - falling(point(k))));
       },
       of_constant(falling)},
      {"b exp(−a² t)",
       [=](Problem& p, const Value& a, const Value& b, double s) {
         for (int k = 0; k < kPoints; ++k)
           p.add_residual(s * (b * exp(-square(a) * time_of(point(k))) - rising(point(k))));
       },
       of_constant(rising)},
  };
}

Curved named(const std::string& name, bool other_order) {
  const std::vector<Curved> all = curved(other_order);
  return *std::ranges::find_if(all, [&](const Curved& one) { return name == one.name; });
}

constexpr std::size_t kCopies = 2;

/// The costs are those of kCopies problems beside each other.
Summary solve_from(const Curved& one, double start, double unit, double size,
                   Components components = Components::automatic) {
  std::vector<double> x(2 * kCopies, start * unit);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < kCopies; ++k)
    one.rows(problem, unknowns[2 * k] * (1 / unit), unknowns[2 * k + 1] * (1 / unit), size);
  SolverOptions options{.max_iterations = 200};
  options.components = components;
  return topograd::solve(problem, options);
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
          EXPECT_NEAR(summary.final_cost / (size * size * kCopies), one.least, 2e-6 * one.least)
              << where;
        }
      }
    }
  }
}

/// The same problem in other units, and with its points in another order.
struct Form {
  double size, unit;
  bool other_order;
};

// From a start so near the minimum, the first steps leave a gradient that is rounding in some
// unknowns and a steep slope in others.
TEST(CurvedResiduals, EndAlikeFromAnyStartInAnyForm) {
  const std::vector<Form> forms = {{1, 1, false},    {1e12, 1, false},  {1e-12, 1, false},
                                   {1, 1e12, false}, {1, 1e-12, false}, {1, 1, true}};
  for (const Components components : {Components::together, Components::separate}) {
    for (const char* const rows : {"a² + 1", "a² t + b", "b exp(−a² t)"}) {
      for (const double start : {1.0, 1e-6, 1e-17}) {
        const double plain = solve_from(named(rows, false), start, 1, 1, components).final_cost;
        for (const Form& form : forms) {
          const Curved one = named(rows, form.other_order);
          const Summary summary = solve_from(one, start, form.unit, form.size, components);
          std::ostringstream where;
          where << rows << ", from " << start << ", unit " << form.unit << ", size " << form.size
                << (form.other_order ? ", other order, " : ", ") << name(components) << ", "
                << summary.message;
          const double cost = summary.final_cost / (form.size * form.size);
          EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where.str();
          EXPECT_NEAR(cost, plain, 1e-12 * plain) << where.str();
          EXPECT_NEAR(cost / kCopies, one.least, (start == 1 ? 2e-6 : 1e-11) * one.least)
              << where.str();
        }
      }
    }
  }
}

// The Hessian is positive on the way to an asymptote and to a point of inflection, too.
TEST(CurvedResiduals, AreNotAtAMinimumWhereTheirCurvatureVanishes) {
  struct Row {
    const char* name;
    Value (*of)(const Value& a);
    std::vector<double> starts;
    bool beside;  // other rows, whose gradient is rounding soon
  };
  const auto cubic = [](const Value& a) { return cube(a) + 1.0; };
  const auto falls = [](const Value& a) { return exp(-a) + 1.0; };
  const std::vector<Row> rows = {{"a³ + 1", cubic, {1, 1e-3, 1e-6, 1e-9, 1e-12}, false},
                                 {"a³ + 1, b", cubic, {1, 1e-3, 1e-6, 1e-9, 1e-12}, true},
                                 {"exp(−a) + 1", falls, {20, 35, 50, 80, 200}, false}};
  for (const Row& row : rows) {
    for (const double start : row.starts) {
      std::vector<double> x = {start, 0.1};
      Problem problem;
      const Parameters unknowns = problem.add_parameters(x, 1);
      problem.add_residual(row.of(unknowns[0]));
      for (int k = 0; row.beside && k < kPoints; ++k)
        problem.add_residual(unknowns[1] - falling(k));
      const double least = row.beside ? of_constant(falling) : 0;
      const Summary summary = topograd::solve(problem, {.max_iterations = 200});
      EXPECT_TRUE(summary.termination != Termination::CONVERGENCE ||
                  summary.final_cost <= least + 1e-6 * least + 1e-12)
          << row.name << " from " << start << ": " << summary.message << ", "
          << summary.final_cost - least;
    }
  }
}

using test::Way;

std::vector<Way> ways() {
  std::vector<Way> out;
  const auto add = [&](const char* name, const auto& set) {
    SolverOptions options{.backend = Backend::cpu, .max_iterations = 300};
    set(options);
    out.push_back({name, options});
  };
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    add("cholesky", [&](SolverOptions& o) {
      o.linear_solver = LinearSolver::cholesky;
      o.precision = precision;
    });
    add("pcg", [&](SolverOptions& o) {
      o.linear_solver = LinearSolver::pcg;
      o.precision = precision;
    });
  }
  add("dogleg", [](SolverOptions& o) { o.method = Method::dogleg; });
  add("Gauss-Newton", [](SolverOptions& o) { o.method = Method::gauss_newton; });
  add("separate", [](SolverOptions& o) { o.components = Components::separate; });
  return out;
}

/// A fit of exact data whose cost has a saddle where unknowns that enter by squares or products are
/// zero.
struct Saddle {
  const char* name;
  Value (*of)(const Value& a, const Value& b, double t);
  double a, b;    // of the data
  double from_a;  // start; that of b is small
};

std::vector<Saddle> saddles() {
  return {
      {"a + b² t", [](const Value& a, const Value& b, double t) { return a + square(b) * t; }, 0.5,
       1.2, 1},
      {"a exp(−b² t)",
       [](const Value& a, const Value& b, double t) { return a * exp(-square(b) * t); }, 2, 0.8, 1},
      {"a t / (b² + t)",
       [](const Value& a, const Value& b, double t) { return a * t / (square(b) + t); }, 2, 0.9, 1},
      {"a cosh(b t)", [](const Value& a, const Value& b, double t) { return a * cosh(b * t); }, 0.5,
       0.7, 1},
      {"a b t", [](const Value& a, const Value& b, double t) { return a * b * t; }, 1.1, 0.9, 0},
  };
}

// The gradient by b is zero where b is, and no number but the second derivative says that the cost
// is lower beside it.
TEST(CurvedResiduals, DoNotEndAtSaddles) {
  for (const Way& way : ways()) {
    for (const Saddle& one : saddles()) {
      for (const double tiny : {0.0, 1e-100, 1e-17, 1e-9}) {
        for (const auto& [size, unit] : std::vector<std::pair<double, double>>{
                 {1, 1}, {1e12, 1}, {1e-12, 1}, {1, 1e12}, {1, 1e-12}}) {
          std::vector<double> x = {std::max(one.from_a, tiny) * unit, tiny * unit};
          Problem problem;
          const Parameters unknowns = problem.add_parameters(x, 1);
          const Value a = unknowns[0] * (1 / unit), b = unknowns[1] * (1 / unit);
          for (int k = 1; k <= kPoints; ++k) {
            const double t = 0.15 * k;
            problem.add_residual(size * (one.of(a, b, t) - one.of(Value(one.a), Value(one.b), t)));
          }
          const Summary summary = topograd::solve(problem, way.options);
          std::ostringstream where;
          where << way.name << ", " << one.name << " from " << tiny << ", size " << size
                << ", unit " << unit << ": " << summary.message;
          EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where.str();
          EXPECT_LE(summary.final_cost, 1e-9 * summary.initial_cost) << where.str();
        }
      }
    }
  }
}

// Saturation a t / (b² + t) is a line on the way to b = ∞. Steps gain less and less there, and
// their gradient nearly vanishes, but the data are met elsewhere: at (1.5, 0.7), with a cost of 0.
TEST(CurvedResiduals, DoNotEndOnTheWayToAnAsymptote) {
  int converged = 0;
  for (const Way& way : ways()) {
    for (const double size : {1.0, 1e12, 1e-12}) {
      for (const double a : {-3.0, -0.1, 0.1, 10.0}) {
        for (const double b : {-10.0, 0.01, 3.0, 30.0}) {
          std::vector<double> x = {a, b};
          Problem problem;
          const Parameters unknowns = problem.add_parameters(x, 1);
          for (int k = 1; k <= kPoints; ++k) {
            const double t = 0.15 * k;
            problem.add_residual(
                size * (unknowns[0] * t / (square(unknowns[1]) + t) - 1.5 * t / (0.49 + t)));
          }
          const Summary summary = topograd::solve(problem, way.options);
          if (summary.termination != Termination::CONVERGENCE) continue;
          ++converged;
          EXPECT_LE(summary.final_cost, 1e-6 * summary.initial_cost)
              << way.name << " from " << a << ", " << b << ", size " << size << ": "
              << summary.message;
        }
      }
    }
  }
  EXPECT_GE(converged, 200);
}

}  // namespace
}  // namespace topograd
