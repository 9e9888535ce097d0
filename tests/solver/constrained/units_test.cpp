// Constrained solves in other units of residuals and unknowns, against optima found by enumeration.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr int kUnknowns = 4;
constexpr int kResiduals = 7;

/// Factors of the numbers of a program.
struct Units {
  double residuals = 1;
  std::array<double, kUnknowns> unknowns = {1, 1, 1, 1};
  std::array<double, 3> rows = {1, 1, 1};  ///< of inequalities and of equalities

  double row(Eigen::Index k) const { return rows[static_cast<std::size_t>(k)]; }
};

/// Least ½ ‖A x − b‖² with C x >= d, E x = e and −side <= x <= side.
struct Program {
  Eigen::MatrixXd a, c, equal;
  Eigen::VectorXd b, d, e;
  Eigen::VectorXd start;  // meets the inequalities, strictly
  double side = 0;        // 0: no bounds

  Program(unsigned seed, int inequalities, int equalities, bool bounded) {
    std::mt19937 random(seed);
    const auto number = [&] { return static_cast<double>(random()) / 2147483648.0 - 1; };
    const auto matrix = [&](int rows, int columns) {
      Eigen::MatrixXd out(rows, columns);
      for (Eigen::Index k = 0; k < out.size(); ++k) out(k) = number();
      return out;
    };
    a = matrix(kResiduals, kUnknowns);
    b = 3 * matrix(kResiduals, 1);
    start = 0.4 * matrix(kUnknowns, 1);
    const Eigen::VectorXd inside = 0.4 * matrix(kUnknowns, 1);
    c = matrix(inequalities, kUnknowns);
    d = c * start - 0.25 * Eigen::VectorXd::Ones(inequalities);
    for (Eigen::Index k = 0; k < d.size(); ++k) d[k] = std::min(d[k], c.row(k).dot(inside) - 0.05);
    equal = matrix(equalities, kUnknowns);
    e = equal * inside;
    if (bounded) side = 0.5;
  }

  /// All constraints of the form row x >= right, after the equalities.
  void rows(Eigen::MatrixXd& row, Eigen::VectorXd& right) const {
    const Eigen::Index sides = side > 0 ? 2 * kUnknowns : 0;
    row = Eigen::MatrixXd::Zero(c.rows() + sides, kUnknowns);
    right.resize(row.rows());
    row.topRows(c.rows()) = c;
    right.head(d.size()) = d;
    for (Eigen::Index k = 0; k < sides; ++k) {
      row(c.rows() + k, k / 2) = k % 2 == 0 ? 1 : -1;
      right[c.rows() + k] = -side;
    }
  }

  /// The optimum: of every set of active rows the one that meets the KKT conditions.
  Eigen::VectorXd optimum() const {
    Eigen::MatrixXd row;
    Eigen::VectorXd right, best = Eigen::VectorXd::Constant(kUnknowns, std::nan(""));
    rows(row, right);
    for (unsigned set = 0; set < 1u << row.rows(); ++set) {
      std::vector<Eigen::Index> active;
      for (Eigen::Index k = 0; k < row.rows(); ++k)
        if ((set >> k & 1) != 0) active.push_back(k);
      const Eigen::VectorXd z = stationary(row(active, Eigen::all), right(active));
      if (z.size() == 0) continue;
      const bool feasible =
          row.rows() == 0 || (row * z.head(kUnknowns) - right).minCoeff() > -1e-12;
      const bool signs =
          active.empty() || z.tail(static_cast<Eigen::Index>(active.size())).minCoeff() > -1e-12;
      if (feasible && signs) best = z.head(kUnknowns);
    }
    return best;
  }

  /// x and multipliers of the equalities and of row x = right; empty if there is no such point.
  Eigen::VectorXd stationary(const Eigen::MatrixXd& row, const Eigen::VectorXd& right) const {
    const Eigen::Index held = equal.rows() + row.rows();
    if (held > kUnknowns) return {};
    Eigen::MatrixXd normals(held, kUnknowns), kkt(kUnknowns + held, kUnknowns + held);
    normals << equal, row;
    kkt << a.transpose() * a, -normals.transpose(), normals, Eigen::MatrixXd::Zero(held, held);
    Eigen::VectorXd sides(kUnknowns + held);
    sides << a.transpose() * b, e, right;
    const Eigen::FullPivLU<Eigen::MatrixXd> lu(kkt);
    return lu.isInvertible() ? lu.solve(sides) : Eigen::VectorXd();
  }

  struct Result {
    Summary summary;
    Eigen::VectorXd x;
  };

  Result solve(Method method, const Units& units) const {
    const auto& unit = units.unknowns;
    std::vector<double> x(start.data(), start.data() + kUnknowns);
    for (std::size_t k = 0; k < kUnknowns; ++k) x[k] *= unit[k];
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    const auto product = [&](const Eigen::MatrixXd& m, Eigen::Index row) {
      Value sum = m(row, 0) / unit[0] * u[0];
      for (std::size_t k = 1; k < kUnknowns; ++k)
        sum = sum + m(row, static_cast<Eigen::Index>(k)) / unit[k] * u[k];
      return sum;
    };
    for (Eigen::Index k = 0; k < a.rows(); ++k)
      problem.add_residual(units.residuals * (product(a, k) - b[k]));
    for (Eigen::Index k = 0; k < c.rows(); ++k)
      problem.add_inequality(units.row(k) * (product(c, k) - d[k]));
    for (Eigen::Index k = 0; k < equal.rows(); ++k)
      problem.add_equality(units.row(k) * (product(equal, k) - e[k]));
    for (std::size_t k = 0; k < kUnknowns && side > 0; ++k)
      problem.set_bounds(u, k, 0, -side * unit[k], side * unit[k]);
    Result out;
    out.summary = topograd::solve(problem, {.backend = Backend::cpu, .method = method});
    for (std::size_t k = 0; k < kUnknowns; ++k) x[k] /= unit[k];
    out.x = Eigen::Map<Eigen::VectorXd>(x.data(), kUnknowns);
    return out;
  }
};

/// Kinds of constraints of a program.
struct Kind {
  const char* name;
  int inequalities, equalities;
  bool bounded;
};

constexpr Kind kKinds[] = {
    {"inequalities", 3, 0, false},
    {"equality", 0, 1, false},
    {"both", 3, 1, false},
    {"inequalities and bounds", 3, 0, true},
    {"equality and bounds", 0, 1, true},
    {"all", 3, 1, true},
};

/// Solves programs of all kinds by both methods and compares with their optima.
void check(std::span<const Units> all, unsigned seeds) {
  for (const Kind& kind : kKinds) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      const Program program(seed, kind.inequalities, kind.equalities, kind.bounded);
      const Eigen::VectorXd best = program.optimum();
      ASSERT_TRUE(best.allFinite()) << kind.name << ", seed " << seed;
      for (const Method method : {Method::augmented_lagrangian, Method::barrier}) {
        for (std::size_t k = 0; k < all.size(); ++k) {
          const Program::Result result = program.solve(method, all[k]);
          SCOPED_TRACE(std::string(kind.name) + ", seed " + std::to_string(seed) + ", " +
                       std::string(name(method)) + ", units " + std::to_string(k) + ": " +
                       result.summary.message);
          EXPECT_EQ(result.summary.termination, Termination::CONVERGENCE);
          EXPECT_LT((result.x - best).norm(), 1e-6 * (1 + best.norm()));
        }
      }
    }
  }
}

// A penalty of 300 was 1e12 times the curvature of some objectives, and 1e-12 times that of others:
// of these solves six in ten ended at their optimum, and 61 of 2,160 elsewhere with CONVERGENCE.
TEST(ConstrainedUnits, OfResidualsAndUnknownsChangeNothing) {
  std::vector<Units> all;
  for (const double size : {1.0, 1e7, 1e-7, 1e12, 1e-12})
    for (const double unit : {1.0, 1e7, 1e-7})
      all.push_back({.residuals = size, .unknowns = {unit, unit, unit, unit}});
  check(all, 4);
}

// Single entries of the gradient were compared: one in twenty of the programs with inequalities and
// bounds ended elsewhere with CONVERGENCE.
TEST(ConstrainedUnits, OfEachUnknownChangeNothing) {
  constexpr Units kAll[] = {
      {.unknowns = {1, 1e6, 1, 1e6}},
      {.unknowns = {1, 1e-6, 1, 1e-6}},
      {.unknowns = {1e-6, 3e4, 1e6, 2e-3}},
      {.residuals = 1e5, .unknowns = {2e5, 1, 3e-6, 7e2}},
  };
  check(kAll, 40);
}

// A violation of 1e-10 in units of 1e6 was far from the constraint.
TEST(ConstrainedUnits, OfEachConstraintChangeNothing) {
  constexpr Units kAll[] = {
      {.rows = {1e-6, 1e-6, 1e-6}},
      {.rows = {1e6, 1e-6, 1}},
      {.unknowns = {2e5, 1, 3e-6, 7e2}, .rows = {2e-6, 5e5, 1e-3}},
  };
  check(kAll, 40);
}

// At a bound of 1e7 a gradient below the spacing of numbers there was counted in full.
TEST(ConstrainedUnits, ABoundHoldsASmallGradient) {
  for (const bool manifold : {false, true}) {
    std::vector<double> x = {1e7, 3}, q = {1, 0, 0, 0};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.set_bounds(u, 0, 0, 1e7, 2e7);
    problem.add_residual(1e-14 * u[0]);  // a gradient of 1e-21
    problem.add_residual(1e-7 * (u[1] - 5.0));
    if (manifold) {  // another engine
      const Parameters rotation = problem.add_parameters(q, 4);
      problem.set_manifold(rotation, Manifold::quaternion());
      problem.add_residual(1e-7 * rotation.quat(0).x);
    }
    const Summary summary = topograd::solve(problem, {.backend = Backend::cpu});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(x[0], 1e7);
    EXPECT_LT(summary.iterations.back().gradient_max_norm, 1e-22) << manifold;
  }
}

}  // namespace
}  // namespace topograd
