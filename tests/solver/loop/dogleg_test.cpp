// The dogleg, nonmonotonic steps and dense QR: steps against brute force, whole solves.
#include "../../../frontend/manifold.hpp"
#include "../../../solver/host/host_step.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/step_control/trust_region.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <cmath>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;

TEST(Dogleg, SubspaceStepsAreTheBestOfTheirPlane) {
  const Eigen::Matrix3d B = (Eigen::Matrix3d() << 4, 1, 0, 1, 3, 0.5, 0, 0.5, 0.1).finished();
  const Eigen::Vector3d g(1, -2, 0.7);
  const Vector newton = -B.ldlt().solve(g);
  const Quadratic quadratic = [&](const Vector& v) { return v.dot(B * v); };
  const auto model = [&](const Vector& y) { return g.dot(y) + y.dot(B * y) / 2; };
  const Vector first = g.normalized();
  const Vector second = (newton - first.dot(newton) * first).normalized();
  for (const double radius : {0.01, 0.3, 1.0, 4.0, 1e3}) {
    SCOPED_TRACE(radius);
    const Vector y = subspace_step(g, newton, radius, quadratic);
    const Vector path = dogleg_step(g, newton, radius, quadratic);
    EXPECT_LE(y.norm(), radius * (1 + 1e-12));
    EXPECT_LE(path.norm(), radius * (1 + 1e-12));
    double best = newton.norm() <= radius ? model(newton) : 0;
    for (int k = 0; k < 100000; ++k) {
      const double angle = 2 * M_PI * k / 100000;
      best = std::min(best, model(radius * (std::cos(angle) * first + std::sin(angle) * second)));
    }
    EXPECT_LE(model(y), best + 1e-8 * std::fabs(best));
    EXPECT_GE(model(path), model(y) - 1e-12);
    const Vector cauchy = -std::min(g.squaredNorm() / quadratic(g), radius / g.norm()) * g;
    EXPECT_LE(model(path), model(cauchy) + 1e-12);
  }
}

// In other units of the unknowns the step and its radius are the same, and it ends on the boundary.
TEST(Dogleg, SubspaceStepsHaveNoUnit) {
  const Eigen::Matrix3d B = (Eigen::Matrix3d() << 4, 1, 0, 1, 3, 0.5, 0, 0.5, 0.1).finished();
  const Eigen::Vector3d g(1, -2, 0.7);
  const Vector newton = -B.ldlt().solve(g);
  for (const double radius : {0.3, 1.0, 4.0}) {
    const Vector plain =
        subspace_step(g, newton, radius, [&](const Vector& v) { return v.dot(B * v); });
    EXPECT_NEAR(plain.norm() / radius, 1, 1e-12);
    for (const double unit : {0x1p-40, 0x1p40}) {
      const Vector y = subspace_step(g / unit, unit * newton, unit * radius, [&](const Vector& v) {
        return (v / unit).dot(B * (v / unit));
      });
      EXPECT_NEAR((y / unit - plain).norm(), 0, 1e-12 * radius) << radius << ", " << unit;
    }
  }
}

/// The first step from 0 of 1e-5 (x − 1), damped by 1e-4 of the squared norm of the column, which
/// counts as at least 1e-6; columns that are scaled have the norm 1.
TEST(Damping, ColumnsHaveTheirOwnNormsWithoutScaling) {
  for (const bool on_manifold : {false, true}) {  // another engine
    for (const bool scaling : {false, true}) {
      std::vector<double> v = {0}, q = {1, 0, 0, 0};
      Problem problem;
      problem.add_residual(1e-5 * (problem.add_parameters(v)[0] - 1.0));
      const Parameters rotation = problem.add_parameters(q, 4);
      if (on_manifold) problem.set_manifold(rotation, Manifold::quaternion());
      problem.add_residual(rotation.quat(0).x);
      SolverOptions options{.backend = Backend::cpu, .max_iterations = 1};
      options.linear_solver = LinearSolver::cholesky;
      options.initial_trust_region_radius = 1e4;
      options.jacobi_scaling = scaling;
      options.rescale_steps = false;
      options.function_tolerance = options.parameter_tolerance = 0;
      solve(problem, options);
      EXPECT_NEAR(v[0], scaling ? 1 / (1 + 1e-4) : 0.5, 1e-9) << on_manifold << scaling;
    }
  }
}

std::unique_ptr<Problem> powell(std::vector<double>& v) {
  auto problem = std::make_unique<Problem>();
  const Parameters x = problem->add_parameters(v);
  problem->add_residual(x[0] + 10.0 * x[1]);
  problem->add_residual(std::sqrt(5.0) * (x[2] - x[3]));
  problem->add_residual((x[1] - 2.0 * x[2]) * (x[1] - 2.0 * x[2]));
  problem->add_residual(std::sqrt(10.0) * (x[0] - x[3]) * (x[0] - x[3]));
  return problem;
}

TEST(Dogleg, SolvesPowellsSingularFunction) {
  for (const DoglegType type : {DoglegType::traditional, DoglegType::subspace}) {
    for (const LinearSolver linear :
         {LinearSolver::automatic, LinearSolver::dense, LinearSolver::pcg}) {
      SCOPED_TRACE(std::string(name(type)) + ", " + std::string(name(linear)));
      std::vector<double> v = {3, -1, 0, 1};
      const auto problem = powell(v);
      SolverOptions options = {.backend = Backend::cpu,
                               .method = Method::dogleg,
                               .linear_solver = linear,
                               .max_iterations = 100,
                               .function_tolerance = 1e-16};
      options.dogleg_type = type;
      options.initial_trust_region_radius = 1;
      options.linear_tolerance = 1e-12;
      const Summary summary = solve(*problem, options);
      EXPECT_DOUBLE_EQ(summary.initial_cost, 107.5);
      EXPECT_LT(summary.final_cost, 1e-12) << summary.full_report();
      EXPECT_EQ(summary.linear_solver_note, linear == LinearSolver::dense
                                                ? "steps on the host: dogleg, dense"
                                                : "steps on the host: dogleg");
    }
  }
}

TEST(Dogleg, SolvesRosenbrockFromFarAway) {
  std::vector<double> v = {-120, 100};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  problem.add_residual(10.0 * (x[1] - x[0] * x[0]));
  problem.add_residual(1.0 - x[0]);
  SolverOptions options = {.backend = Backend::cpu, .method = Method::dogleg};
  options.max_iterations = 500;
  options.function_tolerance = 1e-16;
  solve(problem, options);
  EXPECT_NEAR(v[0], 1, 1e-6);
  EXPECT_NEAR(v[1], 1, 1e-6);
}

// The radius is as long as steps are: its least value has their unit, too.
TEST(Dogleg, UnitsOfTheResidualsDecideNothing) {
  for (const double unit : {1e-130, 1e-60, 1e-35, 1.0, 1e60, 1e130}) {
    std::vector<double> v = {-120, 100};
    Problem problem;
    const Parameters x = problem.add_parameters(v);
    problem.add_residual(unit * (10.0 * (x[1] - x[0] * x[0])));
    problem.add_residual(unit * (1.0 - x[0]));
    SolverOptions options = {.backend = Backend::cpu, .method = Method::dogleg};
    options.max_iterations = 500;
    options.function_tolerance = 1e-16;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << unit << summary.message;
    EXPECT_NEAR(v[0], 1, 1e-6) << unit;
    EXPECT_NEAR(v[1], 1, 1e-6) << unit;
  }
}

// With a diagonal matrix the first iteration of conjugate gradients is the last one, which is not
// counted, as in Eigen.
TEST(Dogleg, CountsIterationsBeforeTheLast) {
  std::vector<double> v = {1, 2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  for (std::size_t k = 0; k < 3; ++k)
    problem.add_residual(std::pow(10.0, static_cast<double>(k)) * (x[k] - 5.0));
  const Summary s = solve(
      problem,
      {.backend = Backend::cpu, .method = Method::dogleg, .linear_solver = LinearSolver::pcg});
  EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  for (const double value : v) EXPECT_NEAR(value, 5, 1e-6);
  for (const IterationSummary& step : s.iterations) EXPECT_EQ(step.linear_iterations, 0);

  // Of a system that is not diagonal, three iterations are needed.
  std::vector<double> w = {1, 2, 3};
  Problem coupled;
  const Parameters y = coupled.add_parameters(w);
  coupled.add_residual(y[0] + 2.0 * y[1] - 1.0);
  coupled.add_residual(y[1] - 3.0 * y[2]);
  coupled.add_residual(y[0] + y[2] + 5.0);
  const Summary three = solve(
      coupled,
      {.backend = Backend::cpu, .method = Method::dogleg, .linear_solver = LinearSolver::pcg});
  ASSERT_GT(three.iterations.size(), 1u);
  EXPECT_EQ(three.iterations[1].linear_iterations, 2);
}

TEST(Dense, SolvesWhatLacksRank) {
  // Only the sum is determined; the step of least norm divides it.
  std::vector<double> v = {0, 0};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  problem.add_residual(x[0] + x[1] - 3.0);
  const Summary summary =
      solve(problem, {.backend = Backend::cpu, .linear_solver = LinearSolver::dense});
  EXPECT_EQ(summary.linear_solver, LinearSolver::dense);
  EXPECT_NEAR(v[0] + v[1], 3, 1e-6);
  EXPECT_NEAR(v[0], v[1], 1e-9);
}

TEST(Gain, MeasuresAgainstTheHighestOfTheLastCosts) {
  // Reference: Ceres' TrustRegionStepEvaluator by hand.
  Gain gain(2);
  gain.start(10);
  EXPECT_DOUBLE_EQ(gain.ratio(8, 4), 0.5);
  gain.accepted(8, 4);                          // a minimum
  EXPECT_DOUBLE_EQ(gain.ratio(9, 2), 1.0 / 6);  // (10 − 9) / (4 + 2), better than −1/2
  gain.accepted(9, 2);                          // one step above it
  EXPECT_DOUBLE_EQ(gain.ratio(8.5, 1), 0.5);
  gain.accepted(8.5, 1);  // two: the reference becomes 9; 1 was predicted since
  EXPECT_DOUBLE_EQ(gain.ratio(9.5, 1), -0.25);
  EXPECT_DOUBLE_EQ(gain.minimum(), 8);
}

// Ceres counts a step to the same cost as one without a new minimum: the second one makes 8 the
// reference.
TEST(Gain, TheSameCostIsNoNewMinimum) {
  Gain gain(2);
  gain.start(10);
  gain.accepted(8, 4);
  gain.accepted(8, 1);
  EXPECT_DOUBLE_EQ(gain.ratio(9, 2), 1.0 / 7);  // (10 − 9) / (4 + 1 + 2)
  gain.accepted(8, 1);
  EXPECT_DOUBLE_EQ(gain.ratio(9, 2), -0.25);  // (8 − 9) / (1 + 1 + 2), better than −1/2
}

TEST(Nonmonotonic, EndsAtTheBestPoint) {
  for (const double start : {-1.2, -12.0}) {
    std::vector<double> v = {start, 1};
    Problem problem;
    const Parameters x = problem.add_parameters(v);
    problem.add_residual(10.0 * (x[1] - x[0] * x[0]));
    problem.add_residual(1.0 - x[0]);
    SolverOptions options = {.backend = Backend::cpu};
    options.use_nonmonotonic_steps = true;
    options.max_iterations = 12;
    const Summary summary = solve(problem, options);
    const double a = 10 * (v[1] - v[0] * v[0]), b = 1 - v[0];
    double least = summary.initial_cost;
    for (const IterationSummary& i : summary.iterations) least = std::min(least, i.cost);
    EXPECT_NEAR((a * a + b * b) / 2, least, 1e-12 * (1 + least));
    EXPECT_NEAR(summary.final_cost, least, 1e-12 * (1 + least));
  }
}

}  // namespace
}  // namespace topograd
