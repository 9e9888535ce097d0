// Solves whose columns depend on each other nearly do not end before their minimum.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <Eigen/SVD>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
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
        // This Jacobian is too large for QR, and a factor of the normal equations takes short
        // steps.
        const bool short_steps = pairs == 200 && weak == 1e-8 && linear == cholesky;
        const auto least = static_cast<double>(pairs);
        const std::string where = std::to_string(pairs) + " pairs, " + std::to_string(weak * 1e8) +
                                  ", " + std::string(name(linear)) + ": " + summary.message;
        EXPECT_EQ(summary.termination,
                  short_steps ? Termination::NO_CONVERGENCE : Termination::CONVERGENCE)
            << where;
        if (!short_steps) {
          EXPECT_NEAR(summary.final_cost, least, 1e-5 * least) << where;
        }
      }
      if (pairs == 200) continue;
      SolverOptions options{.components = Components::separate, .max_iterations = 100};
      EXPECT_NEAR(solve_pairs(pairs, weak, options).final_cost, 40, 4e-5) << weak;
    }
  }
}

// One row cancels as that of a point in the centre of a camera: its terms are 1e13 times its
// unknown, and it is 0. Rounding in it hides little, since the row itself is small, however large
// the others are. The first full step of `far` is twice too long, and promises 1.3e-5 of the cost.
// The least cost is that of the constant rows.
TEST(DependentColumns, RoundingOfOneRowHidesNoGainOfOthers) {
  using enum LinearSolver;
  for (const LinearSolver linear : {automatic, cholesky, pcg, schur}) {
    std::vector<double> near = {1}, far = {2}, rest(10, 0.5);
    Problem problem;
    const Value u = problem.add_parameters(near, 1)[0], v = problem.add_parameters(far, 1)[0];
    const Parameters others = problem.add_parameters(rest, 1);
    problem.add_residual(1e13 * (u - 1.0));
    problem.add_residual(0.4 * atan(v));
    for (std::size_t k = 0; k < rest.size(); ++k) {
      problem.add_residual(others[k] - 1.0 - std::sqrt(1000.0));
      problem.add_residual(others[k] - 1.0 + std::sqrt(1000.0));
    }
    const Summary summary = topograd::solve(
        problem, {.backend = Backend::cpu, .linear_solver = linear, .max_iterations = 100});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << name(linear) << summary.message;
    EXPECT_NEAR(summary.final_cost, 1e4, 1e-6 * 1e4) << name(linear) << ": " << summary.message;
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
  struct Steps {
    Method method;
    LinearSolver linear;
  };
  for (const auto& [method, linear] :
       {Steps{Method::newton, LinearSolver::automatic},
        Steps{Method::lbfgs, LinearSolver::automatic},
        Steps{Method::levenberg_marquardt, LinearSolver::pcg},
        Steps{Method::gauss_newton, LinearSolver::pcg}, Steps{Method::dogleg, LinearSolver::pcg}}) {
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

/// A model, its data, and the cost of its best fit by scipy.optimize.least_squares in scaled units.
struct Curve {
  const char* name;
  std::function<Value(const Parameters&, double)> model;
  std::function<double(int)> x, y;
  int points;
  double least;
};

/// Saturating models from ones, in units in which the data are their linear parts there: columns
/// are parallel to 1e-3 and less, and a step without damping is far too long.
std::vector<Curve> saturating_curves() {
  const auto noise = [](int i) { return std::sin(12.9 * i); };
  static constexpr double kMolar[] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4};
  const auto molar = [](int i) { return kMolar[i]; };
  const auto seconds = [](int i) { return 1e-3 * (0.05 + 0.1 * i); };
  const auto volts = [](int i) { return 1e-4 * (1 + i); };
  return {
      {"michaelis-menten", [](const Parameters& p, double s) { return p[0] * s / (p[1] + s); },
       molar, [=](int i) { return 3e-9 * molar(i) / (1.2e-5 + molar(i)) * (1 + 0.02 * noise(i)); },
       7, 2.9106616357e-23},
      {"hyperbola", [](const Parameters& p, double t) { return p[0] / (p[1] + t); }, seconds,
       [=](int i) { return 1e-9 * (2 / (1.5 + 0.05 + 0.1 * i) + 0.02 * noise(i)); }, 40,
       3.3976563796e-21},
      {"diode", [](const Parameters& p, double v) { return p[0] * (exp(v / p[1]) - 1); }, volts,
       [=](int i) { return std::expm1(0.1 * (1 + i)) * (1 + 0.02 * noise(i)); }, 40, 0.9102590189},
  };
}

TEST(DependentColumns, OfSaturatingModelsLeadToTheMinimum) {
  for (const Curve& curve : saturating_curves()) {
    for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::newton,
                                Method::lbfgs, Method::dogleg}) {
      for (const Components components : {Components::together, Components::separate}) {
        const bool damped = method == Method::levenberg_marquardt;
        if (components == Components::separate && !damped) continue;
        // Whole steps lead others of the hyperbola's to infinity, where the cost is flat.
        if (curve.name == std::string("hyperbola") && !damped && method != Method::lbfgs) continue;
        std::vector<double> x = {1, 1};
        Problem problem;
        const Parameters p = problem.add_parameters(x, 1);
        for (int i = 0; i < curve.points; ++i)
          problem.add_residual(curve.model(p, curve.x(i)) - curve.y(i));
        const Summary summary = topograd::solve(problem, {.backend = Backend::cpu,
                                                          .method = method,
                                                          .components = components,
                                                          .max_iterations = 300});
        const std::string where = std::string(curve.name) + ", " + std::string(name(method)) +
                                  (components == Components::separate ? ", separate: " : ": ") +
                                  summary.message;
        if (summary.termination != Termination::CONVERGENCE && !damped) continue;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(summary.final_cost, curve.least, 1e-4 * curve.least) << where;
      }
    }
  }
}

TEST(DependentColumns, OfSaturatingModelsLeadToTheMinimumWithStepsInF32) {
  for (const Curve& curve : saturating_curves()) {
    std::vector<double> x = {1, 1};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    for (int i = 0; i < curve.points; ++i)
      problem.add_residual(curve.model(p, curve.x(i)) - curve.y(i));
    const Summary summary = topograd::solve(
        problem, {.backend = Backend::cpu, .precision = Precision::mixed, .max_iterations = 300});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << curve.name << summary.message;
    EXPECT_NEAR(summary.final_cost, curve.least, 1e-4 * curve.least) << curve.name;
  }
}

/// A quadratic trend in years and harmonics of a period that is a little longer than the record:
/// conditions of 5e7 and 1e8.
TEST(DependentColumns, OfHarmonicsLeadToTheMinimum) {
  // By numpy.linalg.lstsq in centred years.
  struct Case {
    int harmonics;
    double least;
  };
  for (const auto& [harmonics, least] : {Case{14, 2.7469783994e-3}, Case{20, 2.4663005429e-3}}) {
    for (const double gradient_tolerance : {1e-10, 1e-8}) {
      for (const LinearSolver linear : {LinearSolver::automatic, LinearSolver::dense}) {
        std::vector<double> x(3 + 2 * static_cast<std::size_t>(harmonics), 0.0);
        Problem problem;
        const Parameters p = problem.add_parameters(x, 1);
        for (int i = 0; i < 150; ++i) {
          const double year = 1990 + 30.0 * i / 149;
          Value sum = p[0] + p[1] * year + p[2] * (year * year);
          for (int k = 1; k <= harmonics; ++k) {
            const double angle = 2 * std::numbers::pi * k * year / 30.7;
            const auto first = 1 + 2 * static_cast<std::size_t>(k);
            sum = sum + p[first] * std::cos(angle) + p[first + 1] * std::sin(angle);
          }
          problem.add_residual(
              sum - (3 + std::sin(8 * (year - 1990) / 30) + 0.01 * std::sin(12.9898 * i * i)));
        }
        const Summary summary =
            topograd::solve(problem, {.backend = Backend::cpu,
                                      .linear_solver = linear,
                                      .max_iterations = 200,
                                      .gradient_tolerance = gradient_tolerance});
        const std::string where = std::to_string(harmonics) + " harmonics: " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(summary.final_cost, least, 1e-5 * least) << where;
      }
    }
  }
}

/// Points of a plane, kilometres from the origin: its unit normal and its distance from the origin
/// hardly differ in what they do to the residuals.
TEST(DependentColumns, OfFarPlanesLeadToTheMinimum) {
  for (const double off : {5e2, 5e3, 5e4}) {
    Eigen::Matrix<double, 40, 3> points;
    for (int i = 0; i < points.rows(); ++i) {
      const double x = 50 * std::sin(7.3 * i), y = 50 * std::sin(3.1 * i * i);
      points.row(i) << off + x, off + y, 100 + 0.3 * x - 0.2 * y + 0.01 * std::sin(12.9 * i);
    }
    const Eigen::MatrixXd centred = points.rowwise() - points.colwise().mean();
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(centred);
    const double least = svd.singularValues()[2] * svd.singularValues()[2] / 2;
    for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg,
                                Method::lbfgs, Method::newton}) {
      for (const bool on_sphere : {true, false}) {
        if (on_sphere && method == Method::newton) continue;
        std::vector<double> normal = {0, 0, 1}, distance = {-100};
        Problem problem;
        const Parameters n = problem.add_parameters(normal, 3),
                         d = problem.add_parameters(distance);
        if (on_sphere) problem.set_manifold(n, 0, Manifold::sphere(3));
        const Value length = on_sphere
                                 ? Value(1.0)
                                 : sqrt(n(0, 0) * n(0, 0) + n(0, 1) * n(0, 1) + n(0, 2) * n(0, 2));
        for (int i = 0; i < points.rows(); ++i)
          problem.add_residual(
              (n(0, 0) * points(i, 0) + n(0, 1) * points(i, 1) + n(0, 2) * points(i, 2)) / length +
              d[0]);
        const Summary summary = topograd::solve(
            problem, {.backend = Backend::cpu, .method = method, .max_iterations = 400});
        if (summary.termination != Termination::CONVERGENCE &&
            method != Method::levenberg_marquardt)
          continue;
        const std::string where = std::to_string(off) + " m, " + std::string(name(method)) + ": ";
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where << summary.message;
        EXPECT_NEAR(summary.final_cost, least, 1e-4 * least) << where << summary.message;
      }
    }
  }
}

}  // namespace
}  // namespace topograd
