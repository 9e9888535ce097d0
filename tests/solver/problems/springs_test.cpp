// springs: published initial costs, on the interpreter.
#include <gtest/gtest.h>

#include "../../../solver/evaluator.hpp"

#include <optional>

#include "../../../tools/problems/springs.hpp"

namespace topograd {
namespace {

TEST(Springs, InitialCostsAndTopologies) {
  const struct {
    std::uint32_t width;
    double cost;
    double published_to;  // relative, by the digits of the table
  } rows[] = {{10, 2.6161453817, 1e-10}, {30, 27.0082445932, 1e-10}, {100, 291.938669864, 1e-10}};
  for (const auto& row : rows) {
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}}) {
      SCOPED_TRACE(row.width);
      const auto springs = problems::springs(row.width, seed);
      Evaluator evaluator(springs->problem, {.backend = Backend::cpu});
      EXPECT_NEAR(evaluator.cost(), row.cost, row.published_to * row.cost);
      EXPECT_EQ(springs->problem.topology_count(), 2u);
      const std::uint64_t w = row.width;
      EXPECT_EQ(springs->problem.residual_count(), 2 * w * (w - 1) + (w - 1) * (w - 1) + 12);
    }
  }
}

TEST(Springs, SinglePrecisionCosts) {
  const auto springs = problems::springs(100);
  Evaluator evaluator(springs->problem, {.backend = Backend::cpu, .precision = Precision::f32});
  EXPECT_NEAR(evaluator.cost(), 291.938669864, 1e-5 * 291.938669864);
}

}  // namespace
}  // namespace topograd
