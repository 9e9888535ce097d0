// Solver on a device: buffers, kernels and recorded commands are kept between solves.
#include "../../support/validation.hpp"
#include "solver_cases.hpp"

namespace topograd {
namespace {

using VulkanSolver = test::VulkanTest;

TEST_F(VulkanSolver, SolvesAsIfFresh) {
  for (const Precision precision : {Precision::f64, Precision::f32, Precision::mixed}) {
    if (precision != Precision::f32 && !test::tested_features().float64) continue;
    SCOPED_TRACE(static_cast<int>(precision));
    test::expect_same_as_fresh_solves({.backend = Backend::vulkan,
                                       .precision = precision,
                                       .linear_solver = LinearSolver::pcg,
                                       .deterministic = true});
  }
}

}  // namespace
}  // namespace topograd
