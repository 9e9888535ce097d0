// Random problems on a Vulkan device: verdict and optimum of the CPU, under the judge.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"
#include "../../support/judge.hpp"
#include "../../support/validation.hpp"
#include "disguise.hpp"
#include "random_problems.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace topograd::test {
namespace {

class VulkanRelations : public VulkanTest {};

/// Kinds whose kernels a software device compiles in a moment.
constexpr std::array<std::string_view, 7> kKinds = {"circle", "huber", "boxed",   "chain",
                                                    "poses",  "waves", "products"};

/// Problems: those of TOPOGRAD_VERDICT_PROBLEMS, of all kinds, or one of each kind above.
unsigned problem_count() {
  const char* const asked = std::getenv("TOPOGRAD_VERDICT_PROBLEMS");
  return asked != nullptr ? static_cast<unsigned>(std::atoi(asked))
                          : static_cast<unsigned>(random_kind_count());
}

void expect_as_on_the_cpu(unsigned seed, const SolverOptions& options) {
  const auto p = random_problem(seed);
  Disguised host(p->problem, {});
  SolverOptions on_cpu = options;
  on_cpu.backend = Backend::cpu;
  on_cpu.precision = Precision::f64;
  const Summary expected = solve(host.problem(), on_cpu);
  const Summary summary = solve(p->problem, options);
  const std::string where = p->name() + ", " + std::string(name(options.precision)) + ": " +
                            summary.message + "; on the CPU: " + expected.message;
  EXPECT_TRUE(summary.on_device) << where;
  EXPECT_EQ(contradiction(p->problem, options, summary), "") << where;
  if (p->smooth) {
    EXPECT_EQ(summary.termination, expected.termination) << where;
  }
  EXPECT_NEAR(static_cast<double>(judge(p->problem).cost), expected.final_cost,
              1e-3 * expected.final_cost + 1e-12 * expected.initial_cost)
      << where;
}

TEST_F(VulkanRelations, ADeviceEndsWhereTheCpuDoes) {
  TG_NEEDS(float64);
  for (unsigned seed = 0; seed < problem_count(); ++seed) {
    const bool cheap = std::ranges::find(kKinds, random_problem(seed)->kind) != kKinds.end();
    if (!cheap && std::getenv("TOPOGRAD_VERDICT_PROBLEMS") == nullptr) continue;
    for (const Precision precision : {Precision::f64, Precision::mixed})
      expect_as_on_the_cpu(seed, {.backend = Backend::vulkan,
                                  .precision = precision,
                                  .linear_solver = LinearSolver::pcg,
                                  .max_iterations = 500});
  }
}

}  // namespace
}  // namespace topograd::test
