// Steps within bounds on a Vulkan device, and traffic between host and device.
#include <gtest/gtest.h>

#include "../../../frontend/manifold.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"
#include "box_cases.hpp"

namespace topograd::test {
namespace {

class VulkanBox : public VulkanTest {};

TEST_F(VulkanBox, AMembraneOverAnObstacle) {
  TG_NEEDS(float64);
  check_obstacle({.backend = Backend::vulkan}, 1e-7);
  check_obstacle({.backend = Backend::vulkan, .precision = Precision::mixed}, 1e-7);
}

TEST_F(VulkanBox, StepsAreThoseOfTheHost) {
  TG_NEEDS(float64);
  check_against_host_steps({.backend = Backend::vulkan});
  check_against_host_steps({.backend = Backend::vulkan, .precision = Precision::mixed});
  check_against_host_steps({.backend = Backend::vulkan, .precision = Precision::f32});
}

TEST_F(VulkanBox, StepsByAFactorAreThoseOfTheHost) {
  for (const Precision precision : {Precision::f64, Precision::mixed, Precision::f32}) {
    if (precision != Precision::f32 && !tested_features().float64) continue;
    SCOPED_TRACE(name(precision));
    check_against_host_steps(
        {.backend = Backend::vulkan, .precision = precision, .factor = FactorPlace::device});
  }
}

TEST_F(VulkanBox, BoundsHoldExactly) {
  for (const Precision precision : {Precision::f64, Precision::f32, Precision::mixed}) {
    if (precision != Precision::f32 && !tested_features().float64) continue;
    check_bounds_hold_exactly({.backend = Backend::vulkan, .precision = precision});
  }
}

std::unique_ptr<problems::Springs> springs(bool bounded) {
  auto out = std::make_unique<problems::Springs>();
  const problems::SpringGrid grid = problems::spring_grid(24);
  out->x = grid.x;
  const Parameters x = out->problem.add_parameters(out->x, 3);
  problems::add_springs(out->problem, x, grid.springs);
  for (std::size_t k = 0; bounded && k < out->x.size(); ++k)
    out->problem.set_bounds(x, k / 3, static_cast<int>(k % 3), -1e3, 1e3);
  return out;
}

TEST_F(VulkanBox, AStepTakesTheTrafficOfOneWithoutBounds) {
  TG_NEEDS(float64);
  // Bounds would shorten the fifth step, which is refused without them.
  SolverOptions options{.backend = Backend::vulkan,
                        .linear_solver = LinearSolver::pcg,
                        .max_iterations = 4,
                        .initial_trust_region_radius = 1,
                        .rescale_steps = false,
                        .preconditioner = Preconditioner::block_jacobi};
  const auto free = springs(false), bounded = springs(true);
  const Summary expected = solve(free->problem, options);
  const Summary actual = solve(bounded->problem, options);
  EXPECT_EQ(actual.num_iterations(), expected.num_iterations());
  EXPECT_GT(actual.num_successful_steps, 2);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-12 * expected.final_cost);
  EXPECT_EQ(actual.readbacks, expected.readbacks);
  EXPECT_EQ(actual.submissions, expected.submissions);
  EXPECT_LE(actual.submissions, 2u * static_cast<unsigned>(actual.num_iterations()) + 5u);
  EXPECT_EQ(actual.bytes_down, expected.bytes_down);
  EXPECT_LT(actual.bytes_down, 2 * 8 * actual.parameters);
  EXPECT_EQ(actual.kernels_on_cpu, 0u);
}

/// A shuffled grid, large enough to be reordered on the device.
std::unique_ptr<problems::Springs> shuffled(
    const std::function<void(Problem&, const Parameters&, std::span<double>)>& shape) {
  auto out = std::make_unique<problems::Springs>();
  const problems::SpringGrid grid = problems::spring_grid(150, 1);
  out->x = grid.x;
  const Parameters x = out->problem.add_parameters(out->x, 3);
  problems::add_springs(out->problem, x, grid.springs);
  shape(out->problem, x, out->x);
  return out;
}

TEST_F(VulkanBox, ShuffledMeshesKeepTheirBoundsAndManifolds) {
  TG_NEEDS(float64);
  const auto bounds = [](Problem& problem, const Parameters& p, std::span<double> x) {
    for (std::size_t k = 0; k < x.size() / 3; ++k) {
      const double floor = -0.02 - 1e-6 * static_cast<double>(k);  // all different
      x[3 * k + 2] = std::max(x[3 * k + 2], floor);
      problem.set_lower_bound(p, k, 2, floor);
    }
  };
  const auto spheres = [](Problem& problem, const Parameters& p, std::span<double> x) {
    for (std::size_t k = 0; k < x.size() / 3; k += 1 + k % 3)
      problem.set_manifold(p, k, Manifold::sphere(3));
  };
  SolverOptions options{
      .max_iterations = 2, .initial_trust_region_radius = 1, .linear_tolerance = 1e-8};
  for (const bool bounded : {true, false}) {
    SCOPED_TRACE(bounded ? "bounds" : "manifolds");
    const auto make = [&] { return bounded ? shuffled(bounds) : shuffled(spheres); };
    const auto on_host = make(), on_device = make();
    options.backend = Backend::cpu;
    options.linear_solver = LinearSolver::cholesky;
    const Summary expected = solve(on_host->problem, options);
    options.backend = Backend::vulkan;
    options.linear_solver = LinearSolver::pcg;
    const Summary actual = solve(on_device->problem, options);
    EXPECT_EQ(actual.linear_solver_note, "asked for");
    EXPECT_GT(actual.num_successful_steps, 0);
    EXPECT_EQ(actual.num_successful_steps, expected.num_successful_steps);
    EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-7 * expected.final_cost);
    double farthest = 0;
    for (std::size_t k = 0; k < on_host->x.size(); ++k)
      farthest = std::max(farthest, std::fabs(on_host->x[k] - on_device->x[k]));
    EXPECT_LT(farthest, 1e-5);
  }
}

}  // namespace
}  // namespace topograd::test
