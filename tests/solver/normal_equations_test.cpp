// JᵀJ with a fixed pattern against the product of the Jacobian.
#include <gtest/gtest.h>

#include <topograd/solver/linear/normal_equations.hpp>
#include <topograd/solver/model.hpp>

#include <Eigen/Core>
#include <cmath>

#include "problems/springs.hpp"
#include "reference_engine.hpp"

namespace topograd {
namespace {

Eigen::MatrixXd dense(const NormalEquations& normal) {
  const auto n = static_cast<Eigen::Index>(normal.size());
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(n, n);
  for (Eigen::Index c = 0; c < n; ++c) {
    for (std::int32_t k = normal.starts()[static_cast<std::size_t>(c)];
         k < normal.starts()[static_cast<std::size_t>(c) + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      out(normal.rows()[at], c) = normal.values()[at];
      out(c, normal.rows()[at]) = normal.values()[at];
    }
  }
  return out;
}

/// JᵀJ of the free scalars, one product a column.
Eigen::MatrixXd by_products(runtime::Engine& engine, const NormalEquations& normal,
                            std::uint64_t scalars) {
  const auto n = static_cast<Eigen::Index>(normal.size());
  Eigen::MatrixXd out(n, n);
  for (Eigen::Index c = 0; c < n; ++c) {
    std::vector<double> p(scalars, 0.0), column(scalars);
    p[normal.free_scalars()[static_cast<std::size_t>(c)]] = 1;
    engine.jtjp(p, column);
    for (Eigen::Index r = 0; r < n; ++r) {
      out(r, c) = column[normal.free_scalars()[static_cast<std::size_t>(r)]];
    }
  }
  return out;
}

void expect_equal(Problem& problem) {
  const ProblemModel model = make_model("test", problem);
  test::ReferenceEngine engine(model.model);
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  engine.set_point(x);
  NormalEquations normal(model.model);
  for (int again = 0; again < 2; ++again) {
    normal.refresh(engine);
    const Eigen::MatrixXd expected = by_products(engine, normal, model.model.scalars);
    EXPECT_LT((dense(normal) - expected).norm(), 1e-13 * expected.norm());
  }
}

TEST(NormalEquations, OfSprings) {
  const auto springs = problems::springs(5);
  expect_equal(springs->problem);
}

TEST(NormalEquations, WithConstantScalars) {
  std::vector<double> x = {1, 2, 3, 4, 5, 6};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  problem.add_residual(dot(p.vec3(0), p.vec3(1)));
  problem.add_residual(p.vec3(0) - p.vec3(1));
  problem.set_constant(p, 0, 0b010);
  problem.set_constant(p, 1, 0b001);
  const ProblemModel model = make_model("test", problem);
  EXPECT_EQ(NormalEquations(model.model).size(), 4u);
  expect_equal(problem);
}

TEST(NormalEquations, SlotsThatMeetInOneScalarCountTwice) {
  // One topology with two slots, and an instance in which both read the same scalar.
  std::vector<double> x = {2, 3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] * p[1]);
  ProblemModel model = make_model("test", problem);
  ir::Batch batch(2, 0, 0);
  const std::uint32_t same[] = {1, 1};
  batch.append(same, {}, 0);
  model.model.terms[0].batch = &batch;
  test::ReferenceEngine engine(model.model);
  engine.set_point(x);
  NormalEquations normal(model.model);
  normal.refresh(engine);
  EXPECT_EQ(dense(normal), (Eigen::Matrix2d() << 0, 0, 0, 36).finished());
}

TEST(NormalEquations, PatternHasEveryPairOnce) {
  const auto springs = problems::springs(30);
  const ProblemModel model = make_model("test", springs->problem);
  const NormalEquations normal(model.model);
  // Vertices of a grid with one diagonal: a diagonal block each, and one block for each edge.
  const std::size_t edges = 2 * 30 * 29 + 29 * 29;
  EXPECT_EQ(normal.values().size(), 900 * 6 + edges * 9);
  EXPECT_EQ(normal.size(), 2700u);
}

}  // namespace
}  // namespace topograd
