// Host work of an outer step on a device: one submission and one readback of scalars.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

class VulkanStepTraffic : public test::VulkanTest {};

struct Case {
  const char* what;
  std::function<Summary(const SolverOptions&)> run;
  SolverOptions options;
  std::uint64_t other;  // submissions other than steps: the start, the scaling, x at the end
};

template <class Make>
std::function<Summary(const SolverOptions&)> solve_of(const Make& make) {
  return [make](const SolverOptions& options) {
    const auto made = make();
    return solve(made->problem, options);
  };
}

const auto kArap = [] { return problems::arap(problems::icosphere(2)); };
const auto kSprings = [] { return problems::springs(20); };
const auto kBundle = [] {
  return problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
};

/// So few iterations that none has its own submission.
SolverOptions one_list(LinearSolver solver, Preconditioner preconditioner) {
  return {.backend = Backend::vulkan,
          .linear_solver = solver,
          .max_iterations = 14,
          .function_tolerance = 1e-12,
          .max_linear_iterations = 16,
          .preconditioner = preconditioner};
}

std::vector<Case> cases() {
  constexpr LinearSolver pcg = LinearSolver::pcg, schur = LinearSolver::schur;
  constexpr Preconditioner blocks = Preconditioner::block_jacobi,
                           levels = Preconditioner::two_level;
  std::vector<Case> rows = {
      {"plain", solve_of(kArap), one_list(pcg, blocks), 5},
      {"f32", solve_of(kArap), one_list(pcg, blocks), 5},
      {"springs", solve_of(kSprings), one_list(pcg, blocks), 5},
      {"two levels", solve_of(kArap), one_list(pcg, levels), 6},
      {"Schur complement", solve_of(kBundle), one_list(schur, blocks), 5},
      {"factor", solve_of(kArap), one_list(LinearSolver::cholesky, blocks), 5},
      {"mixed", solve_of(kArap), one_list(pcg, blocks), 5},
      {"mixed, two levels", solve_of(kArap), one_list(pcg, levels), 6},
      {"mixed, Schur complement", solve_of(kBundle), one_list(schur, blocks), 5},
      {"mixed, factor", solve_of(kArap), one_list(LinearSolver::cholesky, blocks), 5},
  };
  rows[1].options.precision = Precision::f32;
  for (Case& row : rows) {
    if (std::string_view(row.what).ends_with("factor")) row.options.factor = FactorPlace::device;
    if (std::string_view(row.what).starts_with("mixed")) row.options.precision = Precision::mixed;
  }
  return rows;
}

TEST_F(VulkanStepTraffic, OneSubmissionAndOneReadBack) {
  TG_NEEDS(float64);
  int refused = 0;
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.what);
    const Summary summary = row.run(row.options);
    const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
    EXPECT_GE(steps, 5u) << summary.full_report();
    refused += summary.num_unsuccessful_steps;
    EXPECT_LE(summary.submissions, steps + row.other);
    EXPECT_LE(summary.readbacks, steps + 3);
    EXPECT_EQ(summary.kernels_on_cpu, 0u);
  }
  EXPECT_GT(refused, 0);
}

/// The number of iterations varies with the radius, so that a solve may take more than were queued.
TEST_F(VulkanStepTraffic, LongSolvesTakeFewMore) {
  TG_NEEDS(float64);
  for (Case& row : cases()) {
    SCOPED_TRACE(row.what);
    row.options.max_linear_iterations = 500;
    const Summary summary = row.run(row.options);
    const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
    EXPECT_LE(2 * summary.submissions, 3 * steps + 2 * row.other) << summary.full_report();
    EXPECT_LE(2 * summary.readbacks, 3 * steps + 6);
  }
}

/// With strict domains the host checks every trial and then decides on it.
TEST_F(VulkanStepTraffic, TheDeviceStepsAsTheHostWouldHave) {
  TG_NEEDS(float64);
  int refused = 0, rescaled = 0;
  for (Case& row : cases()) {
    SCOPED_TRACE(row.what);
    row.options.deterministic = true;
    row.options.forcing_sequence = ForcingSequence::eisenstat_walker;  // steps shrink and grow
    const Summary taken = row.run(row.options);
    row.options.domain = DomainPolicy::strict;
    const Summary judged = row.run(row.options);
    EXPECT_GE(judged.submissions, taken.submissions + taken.iterations.size() - 1);
    EXPECT_EQ(taken.message, judged.message);
    ASSERT_EQ(taken.iterations.size(), judged.iterations.size());
    for (std::size_t k = 0; k < taken.iterations.size(); ++k) {
      SCOPED_TRACE(k);
      const IterationSummary &t = taken.iterations[k], &j = judged.iterations[k];
      EXPECT_EQ(t.cost, j.cost);
      EXPECT_EQ(t.gradient_norm, j.gradient_norm);
      EXPECT_EQ(t.gradient_max_norm, j.gradient_max_norm);
      EXPECT_EQ(t.step_norm, j.step_norm);
      EXPECT_EQ(t.relative_decrease, j.relative_decrease);
      EXPECT_EQ(t.trust_region_radius, j.trust_region_radius);
      EXPECT_EQ(t.linear_iterations, j.linear_iterations);
      EXPECT_EQ(t.step_is_successful, j.step_is_successful);
      refused += t.step_is_successful ? 0 : 1;
    }
    row.options.domain = DomainPolicy::mathematical;
    row.options.rescale_steps = false;
    const Summary plain = row.run(row.options);
    rescaled += plain.final_cost != taken.final_cost ? 1 : 0;
    EXPECT_LE(plain.readbacks, static_cast<std::uint64_t>(plain.num_iterations()) + 3);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(rescaled, 0);
}

}  // namespace
}  // namespace topograd
