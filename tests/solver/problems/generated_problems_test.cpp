// Problems of any size: bundle adjustment with a known solution, and large problems of Moré, Garbow
// and Hillstrom.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>

#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/mgh.hpp"

namespace topograd {
namespace {

SolverOptions on_cpu(LinearSolver solver) {
  return {.backend = Backend::cpu, .linear_solver = solver, .max_iterations = 100};
}

TEST(Bundle, StartsWhereItsDescriptionSays) {
  // From docs/reference-problems.md, written independently in Python.
  const struct {
    problems::BundleOptions options;
    double cost;
  } rows[] = {{{.cameras = 8, .points = 100, .observations = 500}, 38627.79973370143},
              {{.cameras = 8, .points = 100, .observations = 500, .noise = 0.5}, 38660.22350221838},
              {{.cameras = 6, .points = 20, .observations = 100, .seed = 7}, 7961.76621929513},
              {{}, 2527804.974385101}};
  for (const auto& row : rows) {
    const auto bundle = problems::bundle(row.options);
    EXPECT_EQ(bundle->problem.topology_count(), 1u);
    Evaluator evaluator(bundle->problem, on_cpu(LinearSolver::cholesky));
    EXPECT_NEAR(evaluator.cost(), row.cost, 1e-12 * row.cost);
  }
}

TEST(Bundle, WithoutNoiseTheAnswerIsFound) {
  const auto bundle = problems::bundle({.cameras = 8, .points = 100, .observations = 500});
  EXPECT_GT(problems::bundle_errors(*bundle).point_max, 1e-2);
  const Summary summary = solve(bundle->problem, on_cpu(LinearSolver::cholesky));
  EXPECT_LE(summary.final_cost, 1e-16 * summary.initial_cost) << summary.message;
  const problems::BundleErrors errors = problems::bundle_errors(*bundle);
  EXPECT_LE(errors.point_max, 1e-6);
  EXPECT_LE(errors.center_max, 1e-6);
  EXPECT_LE(errors.focal_max, 1e-6);
  EXPECT_LE(errors.point_rms, errors.point_max);
}

TEST(Bundle, WithNoiseTheCostIsThatOfTheNoise) {
  const problems::BundleOptions options = {
      .cameras = 8, .points = 200, .observations = 1500, .noise = 0.5};
  const auto bundle = problems::bundle(options);
  const Summary summary = solve(bundle->problem, on_cpu(LinearSolver::cholesky));
  // 2 cost / σ² has a χ² distribution; its degrees of freedom are the rows minus the unknowns,
  // except for seven unknowns without effect.
  const double degrees = 2 * 1500 - (9 * 8 + 3 * 200 - 7);
  const double chi_squared = 2 * summary.final_cost / (options.noise * options.noise);
  EXPECT_NEAR(chi_squared, degrees, 4 * std::sqrt(2 * degrees));
}

TEST(Bundle, SimilaritiesAreNoError) {
  const auto bundle = problems::bundle({.cameras = 4, .points = 20, .observations = 70});
  // The solution, twice as large.
  bundle->cameras = bundle->true_cameras;
  bundle->points = bundle->true_points;
  for (double& x : bundle->points) x *= 2;
  for (std::size_t i = 0; i < bundle->cameras.size(); i += 9) {
    for (std::size_t k = 3; k < 6; ++k) bundle->cameras[i + k] *= 2;
  }
  EXPECT_LE(problems::bundle_errors(*bundle).point_max, 1e-13);
  EXPECT_LE(problems::bundle_errors(*bundle).center_max, 1e-13);
  bundle->points[0] += 0.1;
  EXPECT_GT(problems::bundle_errors(*bundle).point_max, 0.03);
}

TEST(LargeProblems, StartAndEndWhereTheyShould) {
  constexpr std::uint32_t kCount = 120;
  const double n = kCount, sum = -(n + 1) * (2 * n + 1) / 6;
  const struct {
    const char* name;
    double start;  // Σ r², by hand; 0 = not known
    std::size_t topologies;
  } rows[] = {
      {"extended_rosenbrock", 24.2 * n / 2, 1},
      {"extended_powell", 215 * n / 4, 1},
      {"broyden_tridiagonal", n + 11, 1},
      {"broyden_banded", 36 * n, 1},
      {"discrete_boundary", 0, 1},
      {"variably_dimensioned", -sum / n + sum * sum + sum * sum * sum * sum, 2},
  };
  ASSERT_EQ(problems::large_mgh_names().size(), std::size(rows));
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto mgh = problems::large_mgh(row.name, kCount);
    EXPECT_EQ(mgh->problem.topology_count(), row.topologies);
    const Summary summary = solve(mgh->problem, on_cpu(LinearSolver::pcg));
    EXPECT_EQ(summary.unknowns, kCount);
    if (row.start != 0) {
      EXPECT_NEAR(2 * summary.initial_cost, row.start, 1e-12 * row.start);
    }
    EXPECT_LE(summary.final_cost, 1e-10) << summary.message;
  }
}

}  // namespace
}  // namespace topograd
