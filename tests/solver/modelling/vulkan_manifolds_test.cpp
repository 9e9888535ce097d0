// Steps on manifolds on a Vulkan device, against steps on the host, and traffic between them.
#include <gtest/gtest.h>

#include "../../../codegen/vector/kernels.hpp"
#include "../../../solver/solve.hpp"

#include "../../support/validation.hpp"
#include "manifold_cases.hpp"

namespace topograd::test {
namespace {

class VulkanManifolds : public VulkanTest {};

TEST_F(VulkanManifolds, StepsAreThoseOfTheHost) {
  for (const Precision precision : precisions()) {
    SCOPED_TRACE(name(precision));
    const SolverOptions options{.backend = Backend::vulkan, .precision = precision};
    {
      SCOPED_TRACE("pose graph");
      expect_same_walk(pose_graph, options, "manifolds");
    }
    {
      SCOPED_TRACE("mixture");
      expect_same_walk(mixture, options, "manifolds", 8);
    }
  }
}

TEST_F(VulkanManifolds, LongTurnsEndAtTheTarget) {
  for (const Precision precision : precisions()) {
    SCOPED_TRACE(name(precision));
    expect_long_turns_end_at_the_target({.backend = Backend::vulkan, .precision = precision});
  }
}

/// A factor of the tangent coordinates. In f32 its solutions are refined.
TEST_F(VulkanManifolds, StepsByAFactorAreThoseOfTheHost) {
  for (const Precision precision : precisions()) {
    SCOPED_TRACE(name(precision));
    const SolverOptions options{
        .backend = Backend::vulkan, .precision = precision, .factor = FactorPlace::device};
    {
      SCOPED_TRACE("pose graph");
      expect_same_walk(pose_graph, options, "manifolds");
    }
    {
      SCOPED_TRACE("mixture");
      expect_same_walk(mixture, options, "manifolds", 8);
    }
    {
      SCOPED_TRACE("room");
      expect_same_walk(room, options, "bounds, manifolds");
    }
  }
}

TEST_F(VulkanManifolds, AFactorHasTheSameBitsInEveryRun) {
  const SolverOptions options{.backend = Backend::vulkan,
                              .precision = precisions().front(),
                              .max_iterations = 6,
                              .factor = FactorPlace::device,
                              .deterministic = true};
  const auto first = mixture();
  const Summary expected = solve(first->problem, options);
  EXPECT_EQ(expected.factor_bytes, expected.predicted_factor_bytes);
  for (int run = 0; run < 5; ++run) {
    const auto again = mixture();
    solve(again->problem, options);
    EXPECT_EQ(again->x, first->x) << run;
  }
}

TEST_F(VulkanManifolds, PointsStayOnTheirManifolds) {
  TG_NEEDS(float64);
  const auto poses = pose_graph();
  const Summary summary =
      solve(poses->problem, {.backend = Backend::vulkan, .linear_solver = LinearSolver::pcg});
  EXPECT_GT(summary.num_successful_steps, 2);
  EXPECT_EQ(summary.unknowns, 6u * 23);
  for (std::size_t k = 0; k < 24; ++k) {
    double square = 0;
    for (std::size_t j = 0; j < 4; ++j) square += poses->x[4 * k + j] * poses->x[4 * k + j];
    EXPECT_NEAR(square, 1, 1e-12) << k;
  }
}

TEST_F(VulkanManifolds, NothingButScalarsCrossesTheBus) {
  TG_NEEDS(float64);
  for (const LinearSolver linear : {LinearSolver::pcg, LinearSolver::cholesky}) {
    const bool factors = linear == LinearSolver::cholesky;
    const auto poses = pose_graph();
    const Summary summary =
        solve(poses->problem, {.backend = Backend::vulkan,
                               .linear_solver = linear,
                               .factor = factors ? FactorPlace::device : FactorPlace::automatic});
    const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
    EXPECT_EQ(summary.kernels_on_cpu, 0u);
    // One for a step, and for the rest of its iterations if there are many; the start; x at the
    // end.
    const std::uint64_t twice = factors ? 2 * steps : 3 * steps;
    EXPECT_LE(2 * summary.readbacks, twice + 6);
    EXPECT_LE(2 * summary.submissions, twice + 10);
    EXPECT_LT(summary.bytes_down,
              summary.readbacks * 8 * codegen::kScalarCount + 2 * 8 * summary.parameters);
  }
}

TEST_F(VulkanManifolds, MixedReachesTheMinimumOfF64) {
  TG_NEEDS(float64);
  for (const auto make : {pose_graph, mixture, room}) {
    const auto wide = make(), mixed = make();
    SolverOptions options{.backend = Backend::vulkan,
                          .linear_solver = LinearSolver::pcg,
                          .max_iterations = 100,
                          .function_tolerance = 1e-15};
    const Summary expected = solve(wide->problem, options);
    options.precision = Precision::mixed;
    const Summary actual = solve(mixed->problem, options);
    EXPECT_EQ(actual.linear_solver_note, expected.linear_solver_note);
    EXPECT_EQ(actual.kernels_on_cpu, 0u);
    EXPECT_NEAR(actual.final_cost, expected.final_cost, 1e-11 * expected.initial_cost);
    EXPECT_LE(actual.num_iterations(), expected.num_iterations() + 5);
  }
}

TEST_F(VulkanManifolds, BoundsOfOtherBlocksGoWithThem) {
  for (const Precision precision : precisions()) {
    SCOPED_TRACE(name(precision));
    expect_same_walk(room, {.backend = Backend::vulkan, .precision = precision},
                     "bounds, manifolds");
  }
}

TEST_F(VulkanManifolds, WhatADeviceCannotDoIsForTheHost) {
  TG_NEEDS(float64);
  // A bound on a coordinate of a unit quaternion.
  const auto rotation = pose_graph();
  rotation->problem.set_lower_bound(rotation->arrays[0], 3, 0, -0.99);
  const SolverOptions options{.backend = Backend::vulkan, .linear_solver = LinearSolver::pcg};
  EXPECT_EQ(solve(rotation->problem, options).linear_solver_note,
            "steps on the host: bounds, manifolds");
}

}  // namespace
}  // namespace topograd::test
