// Steps on manifolds by conjugate gradients of the CPU's engine, against a factor on the host.
#include <gtest/gtest.h>

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
