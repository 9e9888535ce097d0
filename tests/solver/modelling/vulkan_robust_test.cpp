// Robust losses on a Vulkan device: the correction in both precisions, and no compiling when losses
// change.
#include "robust_cases.hpp"

#include "../../../runtime/vulkan/recording/context.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "../../support/validation.hpp"

namespace topograd::test {
namespace {

class VulkanRobust : public VulkanTest {};

TEST_F(VulkanRobust, KernelsApplyTheCorrection) {
  TG_NEEDS(float64);
  for (const RobustCase& row : robust_cases()) {
    if (row.name == "huber, inliers" || row.name == "soft_l1" || row.name == "scaled") continue;
    SCOPED_TRACE(row.name);
    check_robust(row, {.backend = Backend::vulkan, .precision = Precision::f64});
  }
  check_robust(robust_cases().front(), {.backend = Backend::vulkan, .precision = Precision::f32});
}

/// Kernels of a software device have no flexible columns by default.
struct WithFlexibleColumns {
  explicit WithFlexibleColumns(bool wanted) { runtime::vulkan::set_flexible_columns(wanted); }
  ~WithFlexibleColumns() { runtime::vulkan::set_flexible_columns(std::nullopt); }
};

void expect_no_compiling() {
  std::vector<double> values(30, 0.5);
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  std::vector<Residual> all;
  for (std::size_t k = 0; k < values.size(); ++k)
    all.push_back(
        problem.add_residual(x[k] * x[k] - 0.1 * static_cast<double>(k), {.loss = huber(1)}));
  // A strategy that is measured may change while another process writes what it measured.
  SolverOptions options = {.backend = Backend::vulkan, .max_iterations = 2};
  options.accumulation = Accumulation::gather_recompute;
  solve(problem, options);
  for (const Residual& r : all) problem.set_loss(r, cauchy(0.5));
  EXPECT_EQ(solve(problem, options).shaders_compiled, 0u);
  problem.set_loss(all[3], tukey(3));
  problem.set_loss(all[4], Loss::trivial());
  EXPECT_EQ(solve(problem, options).shaders_compiled, 0u) << "one has a trivial loss now";
}

TEST_F(VulkanRobust, ChangingLossesNeverCompiles) {
  TG_NEEDS(float64);
  for (const bool flexible : {false, true}) {
    SCOPED_TRACE(flexible);
    const WithFlexibleColumns columns(flexible);
    expect_no_compiling();
  }
}

TEST_F(VulkanRobust, StepsOnTheHostStandBesideTheDevice) {
  // Rosenbrock with x0 <= 0.5, whose minimum is (0.5, 0.25).
  for (const Precision precision : precisions()) {
    std::vector<double> values = {-1.2, 1};
    Problem problem;
    const Parameters x = problem.add_parameters(values);
    problem.add_residual(10.0 * (x[1] - x[0] * x[0]));
    problem.add_residual(1.0 - x[0]);
    problem.set_upper_bound(x, 0, 0, 0.5);
    const Summary summary = solve(problem, {.backend = Backend::vulkan, .precision = precision});
    EXPECT_EQ(summary.backend, "vulkan");
    EXPECT_EQ(summary.kernels_on_cpu, 0u);
    EXPECT_EQ(summary.linear_solver_note, "steps on the host: bounds");
    EXPECT_NEAR(values[0], 0.5, 1e-6);
    EXPECT_NEAR(values[1], 0.25, precision == Precision::f64 ? 1e-6 : 1e-3);
  }
}

}  // namespace
}  // namespace topograd::test
