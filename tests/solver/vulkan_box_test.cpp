// Steps within bounds on a Vulkan device, and what crosses the bus.
#include <gtest/gtest.h>

#include <topograd/solver/solve.hpp>

#include <memory>

#include "problems/springs.hpp"
#include "solver/box_cases.hpp"
#include "support/validation.hpp"

namespace topograd::test {
namespace {

class VulkanBox : public VulkanTest {};

TEST_F(VulkanBox, AMembraneOverAnObstacle) {
  check_obstacle({.backend = Backend::vulkan}, 1e-7);
  check_obstacle({.backend = Backend::vulkan, .precision = Precision::mixed}, 1e-7);
}

TEST_F(VulkanBox, StepsAreThoseOfTheHost) {
  check_against_host_steps({.backend = Backend::vulkan});
  check_against_host_steps({.backend = Backend::vulkan, .precision = Precision::mixed});
  check_against_host_steps({.backend = Backend::vulkan, .precision = Precision::f32});
}

TEST_F(VulkanBox, BoundsHoldExactly) {
  for (const Precision precision : {Precision::f64, Precision::f32, Precision::mixed})
    check_bounds_hold_exactly({.backend = Backend::vulkan, .precision = precision});
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
  SolverOptions options{.backend = Backend::vulkan,
                        .linear_solver = LinearSolver::pcg,
                        .max_iterations = 5,
                        .initial_trust_region_radius = 1,
                        .rescale_steps = false};
  const auto free = springs(false), bounded = springs(true);
  const Summary expected = solve(free->problem, options);
  const Summary actual = solve(bounded->problem, options);
  EXPECT_EQ(actual.num_iterations(), expected.num_iterations());
  EXPECT_GT(actual.num_successful_steps, 2);
  EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-12 * expected.final_cost);
  EXPECT_EQ(actual.readbacks, expected.readbacks);
  EXPECT_EQ(actual.submissions, expected.submissions);
  EXPECT_EQ(actual.bytes_down, expected.bytes_down);
  EXPECT_LT(actual.bytes_down, 2 * 8 * actual.parameters);
  EXPECT_EQ(actual.kernels_on_cpu, 0u);
}

}  // namespace
}  // namespace topograd::test
