// Steps on manifolds by conjugate gradients of the CPU's engine, against a factor on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../../../solver/solve.hpp"

#include "manifold_cases.hpp"

namespace topograd::test {
namespace {

const SolverOptions kPcg{.backend = Backend::cpu, .linear_solver = LinearSolver::pcg};

TEST(Manifolds, StepsByConjugateGradientsAreThoseOfTheHost) {
  {
    SCOPED_TRACE("pose graph");
    expect_same_walk(pose_graph, kPcg, "manifolds");
  }
  {
    SCOPED_TRACE("mixture");
    expect_same_walk(mixture, kPcg, "manifolds", 8);
  }
  {
    SCOPED_TRACE("room");
    expect_same_walk(room, kPcg, "bounds, manifolds");
  }
}

TEST(Manifolds, TheEngineMakesTheseStepsInF64Alone) {
  const auto note = [](const SolverOptions& options) {
    return solve(pose_graph()->problem, options).linear_solver_note;
  };
  EXPECT_EQ(note(kPcg).find("steps on the host"), std::string::npos) << note(kPcg);
  for (const Precision precision : {Precision::f32, Precision::mixed}) {
    SolverOptions options = kPcg;
    options.precision = precision;
    EXPECT_EQ(note(options), "steps on the host: manifolds");
  }
  const auto rotation = pose_graph();
  rotation->problem.set_lower_bound(rotation->arrays[0], 3, 0, -0.99);
  EXPECT_EQ(solve(rotation->problem, kPcg).linear_solver_note,
            "steps on the host: bounds, manifolds");
}

// Near a whole turn derivatives by an axis-angle vector vanish across the axis; plus() undoes that,
// but not in rounded numbers.
TEST(Manifolds, LongTurnsEndAtTheTarget) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    SCOPED_TRACE(name(precision));
    expect_long_turns_end_at_the_target({.backend = Backend::cpu, .precision = precision});
  }
}

TEST(Manifolds, PointsStayOnThem) {
  const auto poses = pose_graph();
  const Summary summary = solve(poses->problem, kPcg);
  EXPECT_GT(summary.num_successful_steps, 2);
  EXPECT_EQ(summary.unknowns, 6U * 23);
  for (std::size_t k = 0; k < 24; ++k) {
    double square = 0;
    for (std::size_t j = 0; j < 4; ++j) square += poses->x[4 * k + j] * poses->x[4 * k + j];
    EXPECT_NEAR(square, 1, 1e-12) << k;
  }
}

// Nothing in the residuals says where to go from the longest axis of an ellipsoid.
TEST(Manifolds, PointsWithoutAGradientStayOnThem) {
  for (const LinearSolver linear :
       {LinearSolver::pcg, LinearSolver::cholesky, LinearSolver::dense}) {
    std::vector<double> x = {0, 0, 1};
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3);
    problem.set_manifold(p, Manifold::sphere(3));
    for (std::size_t j = 0; j < 3; ++j) problem.add_residual(static_cast<double>(j + 1) * p(0, j));
    const Summary summary = solve(problem, {.backend = Backend::cpu, .linear_solver = linear});
    EXPECT_NEAR(x[0] * x[0] + x[1] * x[1] + x[2] * x[2], 1, 1e-12) << name(linear);
    EXPECT_NEAR(summary.final_cost, (x[0] * x[0] + 4 * x[1] * x[1] + 9 * x[2] * x[2]) / 2, 1e-12);
  }
}

using Random = std::mt19937;

std::vector<double> normals(Random& random, int count) {
  std::normal_distribution<double> normal;
  std::vector<double> out;
  for (int k = 0; k < count; ++k) out.push_back(normal(random));
  return out;
}

double length_of(std::span<const double> v) {
  double square = 0;
  for (const double a : v) square += a * a;
  return std::sqrt(square);
}

std::vector<double> unit_vector(Random& random, int width) {
  std::vector<double> out = normals(random, width);
  const double length = length_of(out);
  for (double& a : out) a /= length;
  return out;
}

/// A turn that shall carry a to b, of another length: the turn about b is free.
Summary turn_to(Random& random, double unit, const SolverOptions& options, double& least) {
  std::vector<double> x = unit_vector(random, 4), a = normals(random, 3), b = normals(random, 3);
  Problem problem;
  const Parameters q = problem.add_parameters(x, 4);
  problem.set_manifold(q, Manifold::quaternion());
  const Vec3 turned = rotate(q.quat(0), Vec3{Value(a[0]), Value(a[1]), Value(a[2])});
  problem.add_residual(
      {unit * (turned.x - b[0]), unit * (turned.y - b[1]), unit * (turned.z - b[2])});
  least = std::pow(unit * (length_of(a) - length_of(b)), 2) / 2;
  return solve(problem, options);
}

/// Two directions, of which the cosine between them is measured, and one component of the first.
Summary find_directions(Random& random, double unit, const SolverOptions& options, double& least) {
  std::vector<double> x = unit_vector(random, 3), y = unit_vector(random, 3),
                      a = normals(random, 3);
  const std::vector<double> measured = normals(random, 2);
  Problem problem;
  const Parameters u = problem.add_parameters(x, 3), v = problem.add_parameters(y, 3);
  problem.set_manifold(u, Manifold::sphere(3));
  problem.set_manifold(v, Manifold::sphere(3));
  const Value cosine = u(0, 0) * v(0, 0) + u(0, 1) * v(0, 1) + u(0, 2) * v(0, 2);
  problem.add_residual(unit * (cosine - 0.9 * std::tanh(measured[0])));
  const Value along = u(0, 0) * a[0] + u(0, 1) * a[1] + u(0, 2) * a[2];
  problem.add_residual(unit * (along - measured[1]));
  least = std::pow(unit * std::max(0.0, std::abs(measured[1]) - length_of(a)), 2) / 2;
  return solve(problem, options);
}

// Tangents that nothing measures make the matrix singular, which a step with next to no damping
// stays: it said FAILURE, no usable step, at the minimum.
TEST(Manifolds, FreeTangentsAreNoFailure) {
  for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg}) {
    for (const auto& problem : {turn_to, find_directions}) {
      Random random(11);
      for (int k = 0; k < 25; ++k) {
        const double unit = std::pow(10.0, k % 5 * 3 - 6);
        const SolverOptions options{
            .backend = Backend::cpu, .method = method, .max_iterations = 300};
        double least = 0;
        const Summary summary = problem(random, unit, options, least);
        const std::string where =
            std::string(name(method)) + ", " + std::to_string(k) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(summary.final_cost, least, 1e-4 * least + 1e-9 * summary.initial_cost) << where;
      }
    }
  }
}

/// Sets residuals that are zero at the other end of a half turn from the start.
void add_half_turn(Problem& problem, std::vector<double>& x, int kind, double error) {
  const Vec3 up{Value(0.0), Value(0.0), Value(1.0)};
  const auto add_turned = [&](const Quat& q) {
    const Vec3 turned = rotate(q, up);
    problem.add_residual({turned.x, turned.y, turned.z - 1.0});
  };
  if (kind < 2) {
    x = {error, 0, -1};
    const Parameters n = problem.add_parameters(x, 3);
    problem.set_manifold(n, Manifold::sphere(3));
    if (kind == 0) problem.add_residual(n(0, 2) - 1.0);
    if (kind == 1) problem.add_residual({n(0, 0), n(0, 1), n(0, 2) - 1.0});
  } else if (kind < 4) {
    x = {error, 1, 0, 0};
    const Parameters q = problem.add_parameters(x, 4);
    problem.set_manifold(q, Manifold::quaternion());
    if (kind == 2) add_turned(q.quat(0));
    if (kind == 3) problem.add_residual({q(0, 1), q(0, 2), q(0, 3)});
  } else {
    x = {3.141592653589793 + error, 0, 0};
    const Parameters v = problem.add_parameters(x, 3);
    problem.set_manifold(v, Manifold::so3_axis_angle());
    add_turned(from_axis_angle(Vec3{v(0, 0), v(0, 1), v(0, 2)}));
  }
}

// The gradient is zero, and columns of the Jacobian promise a minimum.
TEST(Manifolds, HalfATurnFromTheTargetIsNoMinimum) {
  struct Way {
    Method method;
    LinearSolver linear;
  };
  for (const auto& [method, linear] : {Way{Method::levenberg_marquardt, LinearSolver::automatic},
                                       Way{Method::levenberg_marquardt, LinearSolver::pcg},
                                       Way{Method::levenberg_marquardt, LinearSolver::dense},
                                       Way{Method::gauss_newton, LinearSolver::automatic},
                                       Way{Method::dogleg, LinearSolver::automatic},
                                       Way{Method::lbfgs, LinearSolver::automatic}}) {
    for (int kind = 0; kind < 5; ++kind) {
      for (const double error : {0.0, 1e-17, 1e-9, 1e-5}) {
        std::vector<double> x;
        Problem problem;
        add_half_turn(problem, x, kind, error);
        const Summary summary = solve(problem, {.backend = Backend::cpu,
                                                .method = method,
                                                .linear_solver = linear,
                                                .max_iterations = 200});
        const std::string where = std::string(name(method)) + ", " + std::string(name(linear)) +
                                  ", " + std::to_string(kind) + ", " + std::to_string(error) +
                                  ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_LE(summary.final_cost, 1e-12 * summary.initial_cost) << where;
      }
    }
  }
}

// One block of many is turned; the others are where they belong, and so they stay.
TEST(Manifolds, OneWrongTurnOfManyIsFound) {
  constexpr std::size_t kBlocks = 200;
  std::vector<double> x(4 * kBlocks);
  Problem problem;
  const Parameters q = problem.add_parameters(x, 4);
  problem.set_manifold(q, Manifold::quaternion());
  Random random(2);
  for (std::size_t k = 0; k < kBlocks; ++k) {
    x[4 * k + (k == 70 ? 3 : 0)] = 1;
    const std::vector<double> noise = normals(random, 3);
    const Quat here = q.quat(k);
    problem.add_residual(
        {here.x - 1e-3 * noise[0], here.y - 1e-3 * noise[1], here.z - 1e-3 * noise[2]});
    if (k == 0) continue;
    const Quat between = conjugate(q.quat(k - 1)) * here;
    problem.add_residual({1e-2 * between.x, 1e-2 * between.y, 1e-2 * between.z});
  }
  const Summary summary = solve(problem, {.backend = Backend::cpu});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_LT(summary.final_cost, 1e-3) << summary.message;
  EXPECT_GT(std::abs(x[4 * 70]), 0.99);
}

TEST(Manifolds, TheSameBitsForAnyNumberOfThreads) {
  SolverOptions options = kPcg;
  options.deterministic = true;
  options.threads = 1;
  const auto one = mixture(), two = mixture();
  solve(one->problem, options);
  options.threads = 2;
  solve(two->problem, options);
  EXPECT_EQ(one->x, two->x);
}

}  // namespace
}  // namespace topograd::test
