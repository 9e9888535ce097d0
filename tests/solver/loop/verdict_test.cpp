// CONVERGENCE against an independent gradient, for random problems and the same problems in
// disguise.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace topograd {
namespace {

enum class Kind { linear, collinear, waves, circle, robust, bounded };
constexpr Kind kKinds[] = {Kind::linear, Kind::collinear, Kind::waves,
                           Kind::circle, Kind::robust,    Kind::bounded};
constexpr double kLoss = 0.7;  // scale of the Huber loss

/// Rows aᵀx + w sin(bᵀx) − y, or distances of points (a₀, a₁) from a circle (centre, radius).
struct RandomProblem {
  struct Row {
    std::vector<double> a, b;
    double y = 0;
  };

  Kind kind = Kind::linear;
  std::vector<Row> rows;
  std::vector<double> start;
  double wave = 0, lower = 0;

  std::size_t size() const { return start.size(); }

  template <class T>
  T residual(const Row& row, const std::vector<T>& x) const {
    using std::hypot;
    using std::sin;
    if (kind == Kind::circle) return hypot(x[0] - row.a[0], x[1] - row.a[1]) - x[2];
    T sum = x[0] * row.a[0], phase = x[0] * row.b[0];
    for (std::size_t k = 1; k < x.size(); ++k) {
      sum = sum + x[k] * row.a[k];
      if (wave > 0) phase = phase + x[k] * row.b[k];
    }
    return wave > 0 ? sum + wave * sin(phase) - row.y : sum - row.y;
  }

  /// Half of the loss of all rows.
  long double cost(const std::vector<long double>& x) const {
    long double sum = 0;
    for (const Row& row : rows) {
      const long double r = residual<long double>(row, x), size = std::fabs(r);
      sum += kind == Kind::robust && size > kLoss ? 2 * kLoss * size - kLoss * kLoss : r * r;
    }
    return sum / 2;
  }
};

RandomProblem make(Kind kind, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  RandomProblem out{.kind = kind};
  const std::size_t n = kind == Kind::circle ? 3 : 2 + seed % 4, m = 2 * n + seed % 7;
  out.wave = kind == Kind::waves ? 0.1 : 0;
  for (std::size_t i = 0; i < m; ++i) {
    RandomProblem::Row row{.a = std::vector<double>(n), .b = std::vector<double>(n)};
    for (std::size_t k = 0; k < n; ++k) {
      row.a[k] = normal(random);
      row.b[k] = normal(random);
    }
    if (kind == Kind::collinear) row.a[1] = row.a[0] + 1e-4 * row.a[1];
    row.y = 2 * normal(random);
    if (kind == Kind::circle) {
      const double angle = 0.7 * static_cast<double>(i) + 0.1 * normal(random);
      row.a[0] = 2 + 3 * std::cos(angle) + 0.1 * normal(random);
      row.a[1] = -1 + 3 * std::sin(angle) + 0.1 * normal(random);
    }
    out.rows.push_back(std::move(row));
  }
  out.start.assign(n, 0);
  if (kind == Kind::circle) out.start[2] = 1;
  if (kind == Kind::bounded) out.lower = -0.2;
  return out;
}

/// The same problem: unknown k is units[k] (x_k + shift), residuals are multiplied.
struct Disguise {
  std::string name;
  double residuals = 1, shift = 0;
  std::function<double(std::size_t k)> unit = [](std::size_t) { return 1.0; };
  std::function<double(std::size_t k, double start)> start = [](std::size_t, double x) {
    return x;
  };
};

struct Solved {
  Summary summary;
  std::vector<long double> x;  // without the disguise
};

Solved solve(const RandomProblem& from, const Disguise& as, const SolverOptions& options) {
  const std::size_t n = from.size();
  std::vector<double> x(n);
  for (std::size_t k = 0; k < n; ++k) x[k] = as.unit(k) * (as.start(k, from.start[k]) + as.shift);
  Problem problem;
  const Parameters unknowns = problem.add_parameters(x, 1);
  if (from.kind == Kind::bounded) {
    for (std::size_t k = 0; k < n; ++k)
      problem.set_bounds(unknowns, k, 0, as.unit(k) * (from.lower + as.shift), 1e300);
  }
  const Loss loss = from.kind == Kind::robust ? Loss::huber(kLoss * as.residuals) : Loss();
  for (const RandomProblem::Row& row : from.rows) {
    std::vector<Value> values;
    for (std::size_t k = 0; k < n; ++k) values.push_back(unknowns[k] * (1 / as.unit(k)) - as.shift);
    const Value r = from.residual<Value>(row, values) * as.residuals;
    problem.add_residual(r, {.loss = loss});
  }
  Solved out{.summary = topograd::solve(problem, options)};
  for (std::size_t k = 0; k < n; ++k)
    out.x.push_back(static_cast<long double>(x[k]) / as.unit(k) - as.shift);
  return out;
}

/// max |g_k| / (‖J_k‖ ‖r‖) by differences in extended precision, without coordinates that a bound
/// holds.
double gradient_cosine(const RandomProblem& p, const std::vector<long double>& x) {
  const auto moved = [&](std::size_t k, long double by) {
    std::vector<long double> y = x;
    y[k] += by;
    return y;
  };
  const long double norm = std::sqrt(2 * p.cost(x));
  double most = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const long double h = 1e-6L * std::max(1.0L, std::fabs(x[k]));
    long double column = 0;
    for (const auto& row : p.rows) {
      const long double slope =
          (p.residual<long double>(row, moved(k, h)) - p.residual<long double>(row, moved(k, -h))) /
          (2 * h);
      column += slope * slope;
    }
    const long double g = (p.cost(moved(k, h)) - p.cost(moved(k, -h))) / (2 * h);
    const bool held = p.kind == Kind::bounded && x[k] <= p.lower + 1e-9L && g > 0;
    if (!held && column > 0)
      most = std::max(most, static_cast<double>(std::fabs(g) / std::sqrt(column) / norm));
  }
  return most;
}

const SolverOptions kOptions = {.max_iterations = 200};
// Defaults claim that no step lowers the cost by more than 1e-6 of it, and a step in one unknown
// lowers it by the square of its cosine.
constexpr double kMostCosine = 3e-3;

TEST(Verdict, ConvergenceIsWhereTheGradientVanishes) {
  const char* const asked = std::getenv("TOPOGRAD_VERDICT_PROBLEMS");
  const unsigned count = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 1500;
  unsigned converged = 0;
  for (unsigned seed = 0; seed < count; ++seed) {
    const RandomProblem p = make(kKinds[seed % std::size(kKinds)], seed);
    const Solved solved = solve(p, {}, kOptions);
    if (solved.summary.termination != Termination::CONVERGENCE) continue;
    ++converged;
    EXPECT_LE(gradient_cosine(p, solved.x), kMostCosine)
        << "seed " << seed << ": " << solved.summary.message;
    EXPECT_LE(solved.summary.optimality, kMostCosine) << "seed " << seed;
  }
  EXPECT_GE(converged, count - count / 100);
}

std::vector<Disguise> disguises() {
  std::vector<Disguise> out;
  for (const double tiny : {1e-6, 6e-17, 1e-300})
    out.push_back({.name = "start " + std::to_string(std::log10(tiny)),
                   .start = [tiny](std::size_t, double x) { return x == 0 ? tiny : x; }});
  for (const double unit : {1e-12, 1e12}) {
    const std::string text = unit < 1 ? " / 1e12" : " * 1e12";
    out.push_back({.name = "residuals" + text, .residuals = unit});
    out.push_back({.name = "all unknowns" + text, .unit = [unit](std::size_t) { return unit; }});
    out.push_back({.name = "odd unknowns" + text,
                   .unit = [unit](std::size_t k) { return k % 2 == 1 ? unit : 1; }});
  }
  out.push_back({.name = "shift", .shift = 1e7});
  return out;
}

TEST(Verdict, IsThatOfTheSameProblemInDisguise) {
  constexpr unsigned kCount = 300;
  for (unsigned seed = 0; seed < kCount; ++seed) {
    const RandomProblem p = make(kKinds[seed % std::size(kKinds)], seed);
    const Solved plain = solve(p, {}, kOptions);
    const long double best = p.cost(plain.x);
    for (const Disguise& as : disguises()) {
      const Solved solved = solve(p, as, kOptions);
      const std::string where = "seed " + std::to_string(seed) + ", " + as.name + ": " +
                                solved.summary.message + "; plain: " + plain.summary.message;
      EXPECT_EQ(solved.summary.termination, plain.summary.termination) << where;
      EXPECT_NEAR(static_cast<double>(p.cost(solved.x) / best), 1, 1e-5) << where;
    }
  }
}

// The minimum of a linear problem is the same from anywhere.
TEST(Verdict, LinearProblemsEndAtTheirMinimumFromFarStarts) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    const RandomProblem p = make(seed % 3 == 0 ? Kind::robust : Kind::linear, seed);
    const Solved plain = solve(p, {}, kOptions);
    for (const double size : {1e-15, 1e9, 1e15}) {
      for (const bool one : {true, false}) {
        const Disguise as = {.start = [&](std::size_t k, double) {
          return one && k > 0 ? 1.0 : size * (1 + 0.3 * static_cast<double>(k));
        }};
        const Solved solved = solve(p, as, kOptions);
        const std::string where = "seed " + std::to_string(seed) + ", start " +
                                  std::to_string(size) + ": " + solved.summary.message;
        EXPECT_EQ(solved.summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(static_cast<double>(p.cost(solved.x) / p.cost(plain.x)), 1, 1e-5) << where;
      }
    }
  }
}

// Squares of 1e-200 are 0, and so would be all that a solve sees.
TEST(Verdict, SquaresOutOfRangeAreAnError) {
  for (const double size : {1e-200, 1e-300}) {
    std::vector<double> x = {1};
    Problem problem;
    const Parameters unknown = problem.add_parameters(x, 1);
    problem.add_residual((unknown[0] - 3.0) * size);
    try {
      topograd::solve(problem, kOptions);
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::NonFinite);
      EXPECT_STREQ(error.what(),
                   "solve: squares of residuals or derivatives underflow or overflow: scale the "
                   "residuals or the unknowns");
    }
  }
}

}  // namespace
}  // namespace topograd
