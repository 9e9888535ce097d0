// JᵀJ with a fixed pattern against the product of the Jacobian, and the rank that its inverse
// finds.
#include <gtest/gtest.h>

#include "../../../solver/evaluator.hpp"
#include "../../../solver/linear/factor/elimination.hpp"
#include "../../../solver/linear/factor/normal_equations.hpp"
#include "../../../solver/linear/factor/normal_inverse.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"

#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
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

/// JᵀJ of the free scalars, one product per column.
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

TEST(NormalEquations, ConstantScalarsHaveNoPartInTheProjection) {
  std::vector<double> x = {2, 0.3};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.add_residual(p(0, 0) * exp(-p(0, 1)) - 7.0);  // linear in the first
  problem.set_constant(p, 0, 0b10);
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  const Evaluator::SparseMatrix hessian = evaluator.hessian({.project_psd = true});
  EXPECT_EQ(hessian.nonZeros(), 1);
  EXPECT_DOUBLE_EQ(hessian.coeff(0, 0), std::exp(-0.6));

  const Summary summary = solve(problem, {.backend = Backend::cpu, .method = Method::newton});
  EXPECT_LE(summary.num_iterations(), 2);
  EXPECT_NEAR(x[0], 7 * std::exp(0.3), 1e-9);
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

TEST(NormalEquations, WithBlocksWiderThanAPanel) {
  std::vector<double> x(40);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = 0.1 * static_cast<double>(k) - 1;
  Problem problem;
  const Parameters p = problem.add_parameters(x, 20);
  Value all = 1.0;
  for (std::uint32_t k = 0; k < 20; ++k) all = all + p(0, k) * p(1, 19 - k);
  problem.add_residual(all);
  problem.add_residual(all * p(1, 3) - sin(p(0, 19)));
  expect_equal(problem);
}

/// One block that all residuals read, as a camera that many images share. Its sums are made in
/// parts, which do not depend on the number of threads.
TEST(NormalEquations, OfABlockThatManyResidualsRead) {
  constexpr std::size_t kCount = 20'000;
  std::vector<double> shared = {0.5, -2, 3}, own(40), weights(kCount);
  for (std::size_t k = 0; k < own.size(); ++k) own[k] = std::sin(static_cast<double>(k));
  for (std::size_t k = 0; k < kCount; ++k) weights[k] = std::cos(static_cast<double>(k));
  Problem problem;
  const Parameters s = problem.add_parameters(shared, 3), p = problem.add_parameters(own, 2);
  const Data w = problem.add_data(weights);
  for (std::size_t k = 0; k < kCount; ++k) {
    const auto b = static_cast<std::uint32_t>(k % 20);
    problem.add_residual(w[k] * s(0, 0) * p(b, 0) + exp(0.1 * s(0, 1)) * p(b, 1) - s(0, 2));
  }
  expect_equal(problem);
  const ProblemModel model = make_model("test", problem);
  test::ReferenceEngine engine(model.model);
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  engine.set_point(x);
  NormalEquations one(model.model, false, 1), two(model.model, false, 2);
  one.refresh(engine);
  two.refresh(engine);
  EXPECT_TRUE(std::ranges::equal(one.values(), two.values()));
  JacobianRows jacobians(model.model);
  jacobians.refresh(engine);
  std::vector<double> by_one(one.size()), by_two(one.size()), r(kCount), product(one.size());
  for (std::size_t k = 0; k < kCount; ++k) r[k] = std::sin(2.0 * static_cast<double>(k));
  one.subtract_products(jacobians, r, by_one);
  two.subtract_products(jacobians, r, by_two);
  EXPECT_EQ(by_one, by_two);
  std::vector<std::uint32_t> column(kCount);
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    model.model.terms[0].batch->copy_index_column(slot, 0, column);
    for (std::size_t k = 0; k < kCount; ++k)
      product[column[k]] -= jacobians[0][5 * k + slot] * r[k];
  }
  for (std::size_t k = 0; k < product.size(); ++k) EXPECT_NEAR(by_one[k], product[k], 1e-9) << k;
}

TEST(NormalEquations, WhereSomeInstancesReadAScalarTwice) {
  // Two blocks of two scalars: instances read one of each, both of one, or one twice.
  std::vector<double> x = {0.5, -2, 3, 0.25};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.add_residual(p(0, 0) * p(0, 1) * p(1, 0) * exp(p(1, 1)));
  ProblemModel model = make_model("test", problem);
  const std::uint32_t rows[][4] = {
      {0, 1, 2, 3}, {2, 3, 0, 1}, {0, 1, 0, 1}, {3, 3, 3, 3}, {1, 0, 2, 2}};
  ir::Batch batch(4, 0, 0);
  model.model.rows = 0;
  for (const auto& row : rows) batch.append(row, {}, model.model.rows++);
  model.model.terms[0].batch = &batch;
  test::ReferenceEngine engine(model.model);
  engine.set_point(x);
  NormalEquations normal(model.model);
  normal.refresh(engine);
  const Eigen::MatrixXd expected = by_products(engine, normal, model.model.scalars);
  EXPECT_LT((dense(normal) - expected).norm(), 1e-13 * expected.norm());
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

/// Expects the same elimination from the matrix and from the model.
void expect_same_elimination(const Problem& problem) {
  const ProblemModel made = make_model("test", problem);
  const runtime::Model& model = made.model;
  NormalEquations normal(model);
  const auto n = static_cast<Eigen::Index>(normal.size());
  const Eigen::Map<const SparseMatrix> lower(
      n, n, static_cast<Eigen::Index>(normal.values().size()), normal.starts().data(),
      normal.rows().data(), normal.values().data());
  std::vector<std::uint32_t> block_of;
  for (const std::uint32_t scalar : normal.free_scalars()) {
    std::uint32_t block = 0;
    for (const runtime::ParameterArray& array : model.arrays) {
      const std::uint64_t inside = std::max<std::uint64_t>(scalar, array.offset) - array.offset;
      block += static_cast<std::uint32_t>(std::min(inside / array.width, array.blocks));
    }
    block_of.push_back(block);
  }
  const Elimination expected = find_elimination(SparseMatrix(lower), block_of);
  const Elimination actual = find_elimination(model);
  EXPECT_EQ(actual.eliminated, expected.eliminated);
  EXPECT_EQ(actual.kept, expected.kept);
  EXPECT_EQ(actual.eliminated + actual.kept, normal.size());
  ASSERT_EQ(actual.blocks.size(), expected.blocks.size());
  for (std::size_t b = 0; b < actual.blocks.size(); ++b) {
    EXPECT_EQ(actual.blocks[b].first, expected.blocks[b].first) << b;
    EXPECT_EQ(actual.blocks[b].width, expected.blocks[b].width) << b;
  }
}

TEST(Elimination, OfAModelIsThatOfItsMatrix) {
  const auto springs = problems::springs(12);
  expect_same_elimination(springs->problem);
  const auto bundle = problems::bundle({.cameras = 5, .points = 40, .observations = 160});
  expect_same_elimination(bundle->problem);
  EXPECT_TRUE(find_elimination(make_model("test", bundle->problem).model).pays());
  std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Problem held;
  const Parameters p = held.add_parameters(x, 3);
  held.add_residual(p.vec3(0) - p.vec3(1));
  held.add_residual(dot(p.vec3(1), p.vec3(2)));
  held.set_constant(p, 0, 0b010);
  held.set_constant(p, 1, 0b111);
  expect_same_elimination(held);
}

TEST(IterativeSchur, OnTheHostFollowsTheForcingSequence) {
  const auto solved = [](ForcingSequence sequence) {
    const auto bundle =
        problems::bundle({.cameras = 20, .points = 1000, .observations = 5000, .noise = 0.5});
    SolverOptions options{.backend = Backend::cpu,
                          .linear_solver = LinearSolver::schur,
                          .preconditioner = Preconditioner::block_jacobi};
    options.forcing_sequence = sequence;
    return solve(bundle->problem, options);
  };
  const Summary constant = solved(ForcingSequence::constant);
  const Summary loose = solved(ForcingSequence::eisenstat_walker);
  EXPECT_EQ(constant.termination, Termination::CONVERGENCE) << constant.message;
  EXPECT_EQ(loose.termination, Termination::CONVERGENCE) << loose.message;
  EXPECT_NEAR(loose.final_cost, constant.final_cost, 1e-9 * constant.final_cost);
  EXPECT_LT(loose.num_linear_iterations, constant.num_linear_iterations);
}

TEST(Elimination, TellsMeshesFromCentres) {
  // Every other block of a chain of 41 is eliminated, both ends included; the 20 kept ones form a
  // chain.
  std::vector<double> x(41, 1.0);
  Problem chain;
  const Parameters p = chain.add_parameters(x, 1);
  for (std::size_t k = 0; k + 1 < x.size(); ++k) chain.add_residual(p(k, 0) * p(k + 1, 0) - 2.0);
  const Elimination line = find_elimination(make_model("test", chain).model);
  EXPECT_EQ(line.blocks.size(), 21u);
  EXPECT_EQ(line.remaining.size(), 20u);
  EXPECT_EQ(line.reach, 19u);
  EXPECT_TRUE(line.remains_wide());
  // All cameras share points.
  const auto bundle = problems::bundle({.cameras = 5, .points = 40, .observations = 160});
  const Elimination points = find_elimination(make_model("test", bundle->problem).model);
  EXPECT_EQ(points.remaining.size(), 5u);
  EXPECT_LE(points.reach, 2u);
  EXPECT_FALSE(points.remains_wide());
  // Cameras in a row, each pair of neighbours sharing ten points: far apart, and few.
  constexpr std::size_t kCameras = 30, kPoints = 10 * (kCameras - 1);
  std::vector<double> cameras(kCameras, 1.0), seen(kPoints, 1.0);
  Problem row;
  const Parameters c = row.add_parameters(cameras, 1), q = row.add_parameters(seen, 1);
  for (std::size_t k = 0; k < kPoints; ++k) {
    for (const std::size_t by : {k / 10, k / 10 + 1}) row.add_residual(c(by, 0) * q(k, 0) - 2.0);
  }
  const Elimination street = find_elimination(make_model("test", row).model);
  EXPECT_EQ(street.blocks.size(), kPoints);
  EXPECT_EQ(street.reach, kCameras - 1);
  EXPECT_FALSE(street.remains_wide());
}

// The null space of (1, s) is along (−s, 1): the first unknown counts as determined if s is 1e-8 at
// most. A Jacobian of zeros determines nothing.
TEST(DeterminedInverse, KnowsWhatARowDetermines) {
  for (const double s : {0.9e-8, 1.1e-8}) {
    const auto inverse = DeterminedInverse::dense(Eigen::RowVector2d(1, s), 1e-14, 0);
    EXPECT_EQ(inverse.rank(), 1u);
    EXPECT_EQ(inverse.undetermined({0, 1}).has_value(), s > 1e-8) << s;
    EXPECT_TRUE(inverse.undetermined({1, 1}).has_value());
  }
  const auto none = DeterminedInverse::dense(Eigen::MatrixXd::Zero(3, 2), 1e-14, 0);
  EXPECT_EQ(none.rank(), 0u);
  EXPECT_TRUE(none.undetermined({0, 1}).has_value());
}

// Columns of the triangular factor that are shorter than the threshold depend on others.
TEST(DeterminedInverse, TheRankFollowsTheThreshold) {
  const Eigen::Matrix2d columns = (Eigen::Matrix2d() << 1, 1, 0, 0.1).finished();
  const SparseMatrix jacobian = columns.sparseView();
  const SparseMatrix square = jacobian.transpose() * jacobian;
  const SparseMatrix lower = square.triangularView<Eigen::Lower>();
  for (const double threshold : {0.05, 0.5})
    EXPECT_EQ(DeterminedInverse::sparse(
                  lower, [&] { return jacobian; }, threshold, 1)
                  .rank(),
              threshold < 0.1 ? 2u : 1u)
        << threshold;
}

// The pivot of the second column is the square of its part across the first one: below 1e-7 the
// factor has too few digits.
TEST(NormalInverse, IsOfNoMatrixThatIsNearlySingular) {
  for (const double across : {2e-7, 0.5e-7}) {
    const double along = std::sqrt(1 - across);
    const Eigen::Matrix2d triangle = (Eigen::Matrix2d() << 1, 0, along, 1).finished();
    const SparseMatrix lower = triangle.sparseView();
    EXPECT_EQ(NormalInverse::make(lower, 1) != nullptr, across > 1e-7) << across;
  }
}

// In a star of unknowns those around the centre share no residual, so that their entries of the
// inverse are not in the pattern of the factor.
TEST(NormalInverse, HasBlocksThatAreNotInThePattern) {
  constexpr int kAround = 200;
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(kAround + 1, kAround + 1);
  for (int k = 0; k < kAround; ++k) {
    matrix(k, k) = 2 + 0.01 * k;
    matrix(kAround, k) = matrix(k, kAround) = 0.1;
  }
  matrix(kAround, kAround) = 3;
  const Eigen::MatrixXd triangle = matrix.triangularView<Eigen::Lower>();
  const SparseMatrix lower = triangle.sparseView();
  const Eigen::MatrixXd expected = matrix.inverse();
  for (const CoordinateRange a : {CoordinateRange{0, 1}, {0, 2}, {kAround - 3, 2}}) {
    const auto inverse = NormalInverse::make(lower, 1);
    ASSERT_TRUE(inverse);
    const Eigen::MatrixXd block = inverse->block(a, {kAround - 1, 2});
    EXPECT_LE((block - expected.block(a.first, kAround - 1, a.count, 2)).norm(), 1e-14);
  }
}

TEST(NormalEquations, PatternHasEveryPairOnce) {
  const auto springs = problems::springs(30);
  const ProblemModel model = make_model("test", springs->problem);
  const NormalEquations normal(model.model);
  // Vertices of a grid with one diagonal: one diagonal block each, and one block per edge.
  const std::size_t edges = 2 * 30 * 29 + 29 * 29;
  EXPECT_EQ(normal.values().size(), 900 * 6 + edges * 9);
  EXPECT_EQ(normal.size(), 2700u);
}

}  // namespace
}  // namespace topograd
