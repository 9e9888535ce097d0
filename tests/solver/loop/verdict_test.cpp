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

TEST(Verdict, NearlyDependentColumns) {
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
TEST(Verdict, DampingHidesWeakColumnsBesideOthers) {
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
