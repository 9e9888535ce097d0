// Factorisations against Eigen's dense one, and the choice of eliminated blocks.
#include <gtest/gtest.h>

#include "../../../solver/linear/factor/blas_threads.hpp"
#include "../../../solver/linear/factor/factorization.hpp"

#include <Eigen/Cholesky>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// A matrix JᵀJ + I of blocks, some of which meet.
struct Problem {
  std::vector<std::uint32_t> block_of;
  Matrix dense;
  SparseMatrix lower;
};

/// `widths` of the blocks; J has a few rows for each pair of blocks that meet.
Problem make(const std::vector<std::uint32_t>& widths,
             const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
  Problem out;
  std::vector<Eigen::Index> first;
  for (std::uint32_t b = 0; b < widths.size(); ++b) {
    first.push_back(static_cast<Eigen::Index>(out.block_of.size()));
    out.block_of.insert(out.block_of.end(), widths[b], b);
  }
  const auto n = static_cast<Eigen::Index>(out.block_of.size());
  out.dense = Matrix::Identity(n, n);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> number(-1, 1);
  const auto any = [&](Eigen::Index rows, Eigen::Index columns) {
    return Matrix(Matrix::NullaryExpr(rows, columns, [&] { return number(random); }));
  };
  for (const auto& [a, b] : pairs) {
    const Matrix A = any(2, widths[a]), B = any(2, widths[b]);
    out.dense.block(first[a], first[a], widths[a], widths[a]) += A.transpose() * A;
    out.dense.block(first[b], first[b], widths[b], widths[b]) += B.transpose() * B;
    out.dense.block(first[a], first[b], widths[a], widths[b]) += A.transpose() * B;
    out.dense.block(first[b], first[a], widths[b], widths[a]) += B.transpose() * A;
  }
  out.lower = Matrix(out.dense.triangularView<Eigen::Lower>()).sparseView();
  return out;
}

/// Cameras of nine unknowns, each of which sees every third point.
Problem cameras_and_points(std::uint32_t cameras, std::uint32_t points, bool points_first) {
  std::vector<std::uint32_t> widths;
  const std::uint32_t camera = points_first ? points : 0, point = points_first ? 0 : cameras;
  widths.assign(cameras + points, 3);
  std::fill_n(widths.begin() + camera, cameras, 9);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t c = 0; c < cameras; ++c)
    for (std::uint32_t p = c % 3; p < points; p += 3) pairs.emplace_back(camera + c, point + p);
  return make(widths, pairs);
}

/// A ring of blocks, each with a second block, like positions and rotations of a curve.
Problem ring(std::uint32_t length) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t k = 0; k < length; ++k) {
    const std::uint32_t next = (k + 1) % length;
    pairs.insert(pairs.end(), {{k, next}, {k, length + k}, {next, length + k}});
  }
  return make(std::vector<std::uint32_t>(2 * length, 2), pairs);
}

struct Row {
  std::string name;
  Problem problem;
  std::size_t eliminated;
  bool pays;
};

std::vector<Row> rows() {
  std::vector<Row> out;
  out.push_back({"points after cameras", cameras_and_points(4, 60, false), 180, true});
  out.push_back({"points before cameras", cameras_and_points(4, 60, true), 180, true});
  out.push_back({"a sparse complement", ring(600), 1200, false});
  out.push_back({"blocks that never meet", make({2, 3, 1}, {{0, 0}, {1, 1}}), 6, true});
  out.push_back({"one block wider than any that goes", make({20, 3}, {{0, 1}}), 3, false});
  out.push_back({"a block of six that goes", make({20, 6}, {{0, 1}}), 6, false});
  return out;
}

Vector right_of(Eigen::Index n) { return Vector::LinSpaced(n, -1, 2); }

TEST(Factorization, SolvesAsTheDenseOneDoes) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Problem& p = row.problem;
    const Vector b = right_of(p.dense.rows());
    const Vector expected = p.dense.llt().solve(b);
    const Elimination elimination = find_elimination(p.lower, p.block_of);
    const auto check = [&](Factorization& factorization) {
      ASSERT_TRUE(factorization.factor(p.lower));
      EXPECT_LE((factorization.solve(b) - expected).norm(), 1e-12 * expected.norm());
      ASSERT_TRUE(factorization.factor(4 * p.lower));  // the pattern is kept
      EXPECT_LE((4 * factorization.solve(b) - expected).norm(), 1e-12 * expected.norm());
    };
    check(*make_sparse_factorization(p.lower, 0));
    check(*make_schur_factorization(p.lower, elimination, 0));
    check(*make_iterative_schur(p.lower, elimination, {1e-15, 10'000}, 0));
  }
}

TEST(Factorization, IterationsEndAtTheirLimits) {
  const Problem p = ring(200);
  const Vector b = right_of(p.dense.rows());
  const Elimination elimination = find_elimination(p.lower, p.block_of);
  const auto error_of = [&](const SchurIteration& limits, int& iterations) {
    const auto iterative = make_iterative_schur(p.lower, elimination, limits, 0);
    EXPECT_TRUE(iterative->factor(p.lower));
    const Vector rest = p.dense * iterative->solve(b) - b;
    iterations = iterative->iterations();
    return rest.norm() / b.norm();
  };
  int loose = 0, tight = 0, few = 0;
  EXPECT_LE(error_of({1e-2, 1000}, loose), 2e-2);
  EXPECT_LE(error_of({1e-10, 1000}, tight), 2e-10);
  EXPECT_GT(error_of({1e-10, 3}, few), 1e-10);
  EXPECT_LT(loose, tight);
  EXPECT_EQ(few, 3);
  EXPECT_EQ(make_schur_factorization(p.lower, elimination, 0)->iterations(), 0);
}

TEST(Factorization, BitsDoNotDependOnThreads) {
  const Problem p = cameras_and_points(12, 900, false);
  const Elimination elimination = find_elimination(p.lower, p.block_of);
  const Vector b = right_of(p.dense.rows());
  const auto one = make_schur_factorization(p.lower, elimination, 1);
  const auto two = make_schur_factorization(p.lower, elimination, 2);
  ASSERT_TRUE(one->factor(p.lower) && two->factor(p.lower));
  EXPECT_EQ(one->solve(b), two->solve(b));
  const auto first = make_iterative_schur(p.lower, elimination, {}, 1);
  const auto second = make_iterative_schur(p.lower, elimination, {}, 2);
  ASSERT_TRUE(first->factor(p.lower) && second->factor(p.lower));
  EXPECT_EQ(first->solve(b), second->solve(b));
}

TEST(Factorization, SaysWhereAMatrixIsNotDefinite) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Problem p = cameras_and_points(3, 30, false);
  const Elimination elimination = find_elimination(p.lower, p.block_of);
  for (const Eigen::Index bad : {Eigen::Index{0}, p.dense.rows() - 1}) {  // a camera's, a point's
    SparseMatrix broken = p.lower;
    broken.coeffRef(bad, bad) = -1;
    EXPECT_FALSE(make_schur_factorization(p.lower, elimination, 0)->factor(broken));
    EXPECT_FALSE(make_iterative_schur(p.lower, elimination, {}, 0)->factor(broken));
    EXPECT_FALSE(make_sparse_factorization(p.lower, 0)->factor(broken));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Elimination, TakesBlocksThatDoNotMeet) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Elimination elimination = find_elimination(row.problem.lower, row.problem.block_of);
    EXPECT_EQ(elimination.eliminated, row.eliminated);
    EXPECT_EQ(elimination.eliminated + elimination.kept, row.problem.block_of.size());
    EXPECT_EQ(elimination.pays(), row.pays);
    std::set<std::uint32_t> taken;
    for (const Elimination::Block& block : elimination.blocks)
      taken.insert(row.problem.block_of[block.first]);
    for (Eigen::Index c = 0; c < row.problem.dense.cols(); ++c) {
      for (Eigen::Index r = 0; r < row.problem.dense.rows(); ++r) {
        const std::uint32_t a = row.problem.block_of[static_cast<std::size_t>(r)];
        const std::uint32_t b = row.problem.block_of[static_cast<std::size_t>(c)];
        const bool meet = a != b && row.problem.dense(r, c) != 0;
        ASSERT_FALSE(meet && taken.contains(a) && taken.contains(b)) << r << ", " << c;
      }
    }
  }
}

TEST(BlasThreads, SmallFactorsTakeOneAndLargeOnesNotEveryCore) {
  for (const int cores : {1, 2, 4, 8, 16, 128}) EXPECT_EQ(blas_threads(1e8, cores), 1);
  EXPECT_EQ(blas_threads(0, 16), 1);
  EXPECT_EQ(blas_threads(1e10, 1), 1);
  EXPECT_EQ(blas_threads(1e10, 2), 2);
  EXPECT_EQ(blas_threads(1e10, 8), 4);
  EXPECT_EQ(blas_threads(1e10, 16), 8);
  EXPECT_EQ(blas_threads(1e10, 128), 8);
}

TEST(BlasThreads, LimitsNestAndEnd) {
  const int before = openblas_threads();
  if (before == 0) GTEST_SKIP() << "OpenBLAS is not loaded";
  {
    const BlasThreadLimit many(before + 3);
    EXPECT_EQ(openblas_threads(), before);
    auto one = std::make_unique<BlasThreadLimit>(1);
    EXPECT_EQ(openblas_threads(), 1);
    const BlasThreadLimit two(2);
    EXPECT_EQ(openblas_threads(), 1);
    one.reset();
    EXPECT_EQ(openblas_threads(), 1);
  }
  EXPECT_EQ(openblas_threads(), before);
}

#ifdef TOPOGRAD_CHOLMOD
TEST(BlasThreads, FactorsLeaveThemAsTheyWere) {
  const int before = openblas_threads();
  const Problem problem = make({3, 3, 3}, {{0, 1}, {1, 2}});
  const auto factor = make_sparse_factorization(problem.lower, 0);
  ASSERT_TRUE(factor->factor(problem.lower));
  factor->solve(Vector::Ones(9));
  EXPECT_EQ(openblas_threads(), before);
}

TEST(BlasThreads, FactorsAreMadeUnderALimit) {
  if (openblas_threads() < 2) GTEST_SKIP() << "OpenBLAS has one thread anyhow, or is not loaded";
  const Problem problem = ring(200);
  const auto factor = make_sparse_factorization(problem.lower, 0);
  std::atomic<bool> seen = false;
  std::thread factors([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!seen && std::chrono::steady_clock::now() < end) factor->factor(problem.lower);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!seen && std::chrono::steady_clock::now() < end) seen = openblas_threads() == 1;
  factors.join();
  EXPECT_TRUE(seen);
}
#endif

}  // namespace
}  // namespace topograd
