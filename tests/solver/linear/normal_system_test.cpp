// Elimination straight from rows against a factor of the whole matrix.
#include <gtest/gtest.h>

#include "../../../runtime/factor/refinement.hpp"
#include "../../../solver/linear/factor/normal_equations.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "reference_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;

/// −g and a damping of the free scalars, at the engine's point.
struct Sides {
  std::vector<double> damping;
  Vector right;
};

Sides sides_of(const NormalSystem& system, runtime::Engine& engine, std::size_t scalars) {
  std::vector<double> gradient(scalars);
  engine.gradient(gradient);
  Sides out{{}, Vector(static_cast<Eigen::Index>(system.size()))};
  for (std::size_t k = 0; k < system.size(); ++k) {
    out.damping.push_back(1e-3 * (1 + static_cast<double>(k % 5)) * (0.1 + system.diagonal(k)));
    out.right[static_cast<Eigen::Index>(k)] = -gradient[system.free_scalars()[k]];
  }
  return out;
}

/// With w = J v, the correction is −v + (JᵀJ + D)⁻¹ D v.
void expect_corrections(NormalSystem& whole, NormalSystem& rows, NormalSystem& threads,
                        std::span<const double> damping, const Vector& v) {
  const Vector damped =
      Eigen::Map<const Vector>(damping.data(), static_cast<Eigen::Index>(damping.size()))
          .cwiseProduct(v);
  ASSERT_TRUE(whole.factor(damping, damped));
  const Vector expected = whole.solve() - v;
  const std::vector<double> w = rows.rows_along(v);
  EXPECT_EQ(w, threads.rows_along(v));
  const Vector found = rows.correct(w);
  EXPECT_LE((found - expected).norm(), 1e-9 * v.norm());
  EXPECT_EQ(found, threads.correct(w));
}

/// Expects equal numbers of both systems, and equal bits for one and two threads.
void expect_equal_systems(const runtime::Model& model, std::span<const double> x) {
  test::ReferenceEngine engine(model);
  engine.set_point(x);
  const Elimination elimination = find_elimination(model);
  ASSERT_GT(elimination.eliminated, 0u);
  const auto whole = make_matrix_system(model, 1, FactorPlace::automatic, 0);
  const auto rows = make_row_schur(model, elimination, 1);
  const auto threads = make_row_schur(model, elimination, 2);
  for (const auto* system : {&whole, &rows, &threads}) (*system)->refresh(engine);
  ASSERT_TRUE(std::ranges::equal(whole->free_scalars(), rows->free_scalars()));
  std::vector<double> expected, found;
  whole->damping_diagonal(expected);
  rows->damping_diagonal(found);
  for (std::size_t k = 0; k < whole->size(); ++k) {
    EXPECT_NEAR(rows->diagonal(k), whole->diagonal(k), 1e-13 * whole->diagonal(k)) << k;
    EXPECT_NEAR(found[k], expected[k], 1e-13 * expected[k]) << k;
  }
  Sides sides = sides_of(*whole, engine, model.scalars);
  for (int again = 0; again < 2; ++again) {  // the second time with another damping
    ASSERT_TRUE(whole->factor(sides.damping, sides.right));
    ASSERT_TRUE(rows->factor(sides.damping, sides.right));
    ASSERT_TRUE(threads->factor(sides.damping, sides.right));
    const Vector solution = whole->solve(), other = rows->solve();
    EXPECT_LE((other - solution).norm(), 1e-9 * solution.norm());
    EXPECT_EQ(other, threads->solve());
    EXPECT_NEAR(rows->square(solution), whole->square(solution),
                1e-12 * std::abs(whole->square(solution)));
    expect_corrections(*whole, *rows, *threads, sides.damping, solution);
    for (double& d : sides.damping) d *= 10;
  }
  sides.damping.assign(sides.damping.size(), -1e30);
  EXPECT_FALSE(rows->factor(sides.damping, sides.right));
  sides.damping.assign(sides.damping.size(), 1e-3);
  EXPECT_EQ(rows->factor(sides.damping, sides.right), whole->factor(sides.damping, sides.right));
}

void expect_equal_systems(const Problem& problem) {
  const ProblemModel model = make_model("test", problem);
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  expect_equal_systems(model.model, x);
}

TEST(NormalSystem, CamerasAndPoints) {
  const auto scene = problems::bundle({.cameras = 7, .points = 80, .observations = 240});
  expect_equal_systems(scene->problem);
}

/// Blocks of two that are kept, and blocks of three that only they meet.
struct Blocks {
  std::vector<double> kept, eliminated;
  Problem problem;
  Parameters a, b;

  Blocks() : kept(6), eliminated(24) {
    for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = std::sin(1.0 + static_cast<double>(k));
    for (std::size_t k = 0; k < eliminated.size(); ++k)
      eliminated[k] = 2 * std::cos(static_cast<double>(3 * k));
    a = problem.add_parameters(kept, 2);
    b = problem.add_parameters(eliminated, 3);
    for (std::uint32_t i = 0; i < 8; ++i) {
      for (std::uint32_t j = 0; j < 3; ++j) {
        if ((i + j) % 4 == 0) continue;
        problem.add_residual(a(j, 0) * b(i, 0) + b(i, 1) * b(i, 2) - a(j, 1));
        problem.add_residual(exp(0.1 * a(j, 1)) * b(i, 2) + sin(b(i, 1)));
      }
    }
  }
};

TEST(NormalSystem, FixedScalars) {
  Blocks blocks;
  blocks.problem.set_constant(blocks.a, 1, 0b10);
  blocks.problem.set_constant(blocks.b, 2, 0b010);
  blocks.problem.set_constant(blocks.b, 3, 0b111);
  expect_equal_systems(blocks.problem);
}

TEST(NormalSystem, TermsOfOneKindAlone) {
  Blocks blocks;
  for (std::uint32_t i = 0; i < 8; ++i) blocks.problem.add_residual(0.3 * blocks.b(i, i % 3));
  blocks.problem.add_residual(blocks.a(0, 0) * blocks.a(2, 1) - 1.0);
  expect_equal_systems(blocks.problem);
}

TEST(NormalSystem, SeveralTermsOfOneBlock) {
  Blocks blocks;
  for (std::uint32_t i = 0; i < 8; ++i)  // reads the block backwards, and a kept one between
    blocks.problem.add_residual(blocks.b(i, 2) * blocks.a(i % 3, 1) - blocks.b(i, 0));
  expect_equal_systems(blocks.problem);
}

TEST(NormalSystem, SlotsThatReadOneScalar) {
  std::vector<double> x = {0.5, -2, 3, 0.25, 1.5, -1};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.add_residual(p(0, 0) * p(0, 1) * p(1, 0) * exp(p(1, 1)));
  ProblemModel model = make_model("test", problem);
  const std::uint32_t rows[][4] = {{0, 1, 2, 3}, {1, 0, 3, 3}, {0, 0, 2, 3}, {3, 2, 1, 1},
                                   {0, 1, 4, 5}, {4, 4, 0, 0}, {5, 4, 1, 0}, {2, 2, 3, 3}};
  ir::Batch batch(4, 0, 0);
  model.model.rows = 0;
  for (const auto& row : rows) batch.append(row, {}, model.model.rows++);
  model.model.terms[0].batch = &batch;
  expect_equal_systems(model.model, x);
}

/// Two numbers of a block that only their sum shows, and a third one in a unit of its own, as a
/// focal length beside coefficients of a distortion: its damping follows its own unit, so that
/// steps do not depend on the unit.
TEST(NormalSystem, UnitsOfABlockWithDependentColumns) {
  for (const LinearSolver linear : {LinearSolver::cholesky, LinearSolver::schur}) {
    std::vector<int> steps;
    for (const double unit : {1.0, 1e-6, 1e6}) {
      std::vector<double> blocks(3 * 20, 0.0), points(40, 0.0);
      Problem problem;
      const Parameters c = problem.add_parameters(blocks, 3), p = problem.add_parameters(points);
      for (int k = 0; k < 400; ++k) {
        const int b = k % 20, at = (k / 20 + 2 * b) % 40;
        const double u = std::sin(1.0 + k), v = std::cos(2.0 * k);
        const Value seen = unit * u * c(b, 0) + v * (c(b, 1) + c(b, 2)) + p[at] * (u + 2 * v);
        problem.add_residual({exp(0.1 * seen) - 2 - u * u});
      }
      SolverOptions options;
      options.backend = Backend::cpu;
      options.linear_solver = linear;
      options.max_iterations = 200;
      const Summary summary = solve(problem, options);
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << unit;
      steps.push_back(summary.num_iterations());
    }
    EXPECT_EQ(steps[1], steps[0]) << name(linear);
    EXPECT_EQ(steps[2], steps[0]) << name(linear);
  }
}

/// Only the sum of two unknowns is determined, and the first damping is lost in the rounding of the
/// diagonal, so that the second pivot is exactly 0. Large systems leave it out.
TEST(NormalSystem, LeavesOutPivotsThatVanish) {
  std::vector<double> x(80, 1.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  for (std::size_t k = 0; k < p.size(); ++k) problem.add_residual(p(k, 0) + p(k, 1) - 3.0);
  SolverOptions options{.backend = Backend::cpu, .linear_solver = LinearSolver::cholesky};
  options.initial_trust_region_radius = options.max_trust_region_radius = 1e17;
  options.components = Components::together;  // one factor of 40 parts
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.num_unsuccessful_steps, 0);
  EXPECT_LE(summary.final_cost, 1e-10 * summary.initial_cost);
  EXPECT_NE(summary.linear_solver_note.find(" pivots of the factors vanished"), std::string::npos)
      << summary.linear_solver_note;
}

/// A QR decomposition takes no iterations.
TEST(NormalSystem, DenseSystemsCountNoIterations) {
  std::vector<double> x = {1, 2};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual({exp(u[0]) - 2.0 * u[1], u[1] * u[1] - 3.0});
  const Summary summary =
      solve(problem, {.backend = Backend::cpu, .linear_solver = LinearSolver::dense});
  ASSERT_GE(summary.iterations.size(), 3u);
  for (const IterationSummary& iteration : summary.iterations)
    EXPECT_EQ(iteration.linear_iterations, 0);
}

/// Up to the given size a system with a pivot that vanishes is refused.
TEST(NormalSystem, SmallSystemsAreRefusedWherePivotsVanish) {
  std::vector<double> x = {1, 1};
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  problem.add_residual(u[0] + u[1]);
  const ProblemModel model = make_model("test", problem);
  test::ReferenceEngine engine(model.model);
  engine.set_point(x);
  for (const std::uint64_t strict_up_to : {1, 2, 3}) {
    const auto system = make_matrix_system(model.model, 1, FactorPlace::automatic, strict_up_to);
    system->refresh(engine);
    EXPECT_EQ(system->factor(std::vector<double>{0, 0}, Eigen::Vector2d(1, 1)), strict_up_to < 2)
        << strict_up_to;
  }
}

/// One residual x₀ + x₁, and a right side (1, −1) across it: what a solution leaves of it is 2 in
/// the unknown whose pivot vanished. With that pivot just below its share of the diagonal, c² / 2p
/// more could be gained.
TEST(NormalSystem, PivotsThatVanishMayHideADecrease) {
  std::vector<double> x = {1, 1};
  for (const double size : {1.0, 1e3, 1e10}) {  // the last may gain 5e-5
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    problem.add_residual(size * (u[0] + u[1]));
    const ProblemModel model = make_model("test", problem);
    test::ReferenceEngine engine(model.model);
    engine.set_point(x);
    const auto system = make_matrix_system(model.model, 1, FactorPlace::automatic, 0);
    system->refresh(engine);
    ASSERT_TRUE(system->factor(std::vector<double>{0, 0}, Eigen::Vector2d(1, -1)));
    EXPECT_EQ(system->vanished(), 1u);
    const double pivot =
        size * size * runtime::vanishing_share(2, std::numeric_limits<double>::epsilon());
    const double expected = 2 * 2 / (2 * pivot);
    EXPECT_NEAR(system->hidden_decrease(system->solve()), expected, 1e-9 * expected);
    ASSERT_TRUE(system->factor(std::vector<double>(2, size * size), Eigen::Vector2d(1, -1)));
    EXPECT_EQ(system->hidden_decrease(system->solve()), 0);
  }
}

}  // namespace
}  // namespace topograd
