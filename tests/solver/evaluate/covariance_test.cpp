// Covariance against (JᵀJ)⁻¹ in long double, by both algorithms; manifolds, rank, errors by text.
#include "../../../solver/covariance.hpp"
#include "../../../ir/error.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Exact = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;
constexpr CovarianceAlgorithm kBoth[] = {CovarianceAlgorithm::sparse_qr,
                                         CovarianceAlgorithm::dense_svd};

CovarianceOptions on_cpu(CovarianceAlgorithm algorithm) {
  return {.algorithm = algorithm, .solver = {.backend = Backend::cpu}};
}

TEST(Covariance, IsTheInverseOfTheNormalMatrix) {
  std::vector<double> v = {0.4, -1.3, 2.2, 0.9}, w = {0.7};
  Problem problem;
  const Parameters x = problem.add_parameters(v, 2), y = problem.add_parameters(w);
  Exact J = Exact::Zero(6, 5);
  // a x₀₀ + b x₀₁ x₁₀ + e x₁₀ + c x₁₁ + d y, with hand-written derivatives.
  for (int k = 0; k < 6; ++k) {
    const double a = std::sin(k + 1.0), b = std::cos(2.0 * k), c = 0.3 * k - 1, d = 1.0 / (k + 1);
    const double e = std::cos(1.0 * k * k);
    problem.add_residual(a * x(0, 0) + b * x(0, 1) * x(1, 0) + c * x(1, 1) + d * y[0] +
                         e * x(1, 0));
    J.row(k) << a, b * static_cast<long double>(v[2]), b * static_cast<long double>(v[1]) + e, c, d;
  }
  problem.set_constant(y, 0);
  const Exact expected = (J.leftCols(4).transpose() * J.leftCols(4)).inverse();
  for (const CovarianceAlgorithm algorithm : kBoth) {
    const Covariance covariance(problem, on_cpu(algorithm));
    EXPECT_EQ(covariance.rank(), 4u);
    const Eigen::MatrixXd all = covariance.matrix({{x, 0}, {x, 1}});
    EXPECT_LE((all - expected.cast<double>()).norm(), 1e-12 * all.norm());
    const Eigen::MatrixXd block = covariance.block({x, 1}, {x, 0});
    EXPECT_LE((block - all.bottomLeftCorner(2, 2)).norm(), 1e-15 * all.norm());
    EXPECT_EQ(covariance.block({y, 0}, {y, 0})(0, 0), 0) << "it is constant";
    EXPECT_EQ(covariance.tangent_block({y, 0}, {x, 0}).rows(), 0);
  }
}

TEST(Covariance, LivesInTheTangentSpace) {
  // Two coordinates of a unit quaternion's rotation are measured, and its third.
  std::vector<double> q = {std::cos(0.4), 0, std::sin(0.4), 0};
  Problem problem;
  const Parameters x = problem.add_parameters(q, 4);
  std::vector<Value> rows;
  for (int k = 0; k < 4; ++k) rows.push_back((2.0 + k) * x(0, k));
  problem.add_residual(rows);
  problem.set_manifold(x, 0, Manifold::quaternion());
  Exact P(4, 3);
  double basis[12];
  Manifold::quaternion().plus_jacobian(q.data(), basis);
  for (int k = 0; k < 12; ++k) P(k / 3, k % 3) = basis[k];
  const Exact J = Eigen::Vector4d(2, 3, 4, 5).cast<long double>().asDiagonal() * P;
  const Exact inner = (J.transpose() * J).inverse();
  for (const CovarianceAlgorithm algorithm : kBoth) {
    const Covariance covariance(problem, on_cpu(algorithm));
    EXPECT_LE((covariance.tangent_block({x, 0}, {x, 0}) - inner.cast<double>()).norm(), 1e-14);
    const Exact outer = P * inner * P.transpose();
    EXPECT_LE((covariance.block({x, 0}, {x, 0}) - outer.cast<double>()).norm(), 1e-14);
  }
}

/// A ring of blocks: pairs that share a residual, pairs within the factor, and pairs outside of it.
TEST(Covariance, TakesAnyPairOfASparseProblem) {
  constexpr int kBlocks = 60;
  std::vector<double> v(3 * kBlocks, 0.5);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  Exact J = Exact::Zero(3 * kBlocks + 3, 3 * kBlocks);
  int row = 0;
  const auto number = [](int k) { return std::sin(12.9898 * k + 1) * 0.7; };
  for (int b = 0; b < kBlocks; ++b) {
    const int next = (b + 1) % kBlocks;
    for (int k = 0; k < 3; ++k, ++row) {
      const auto term = [&](int c) {
        const double own = number(row * 7 + c) + (c == k ? 2 : 0), other = number(row * 11 + c);
        J(row, 3 * b + c) = own;
        J(row, 3 * next + c) = -other;
        return own * x(b, c) - other * x(next, c);
      };
      problem.add_residual(term(0) + term(1) + term(2));
    }
  }
  for (int k = 0; k < 3; ++k, ++row) {
    problem.add_residual(3.0 * x(0, k));
    J(row, k) = 3;
  }
  const Exact expected = (J.transpose() * J).inverse();
  const Covariance covariance(problem, on_cpu(CovarianceAlgorithm::sparse_qr));
  std::vector<ParameterBlock> blocks;
  for (std::size_t b = 0; b < kBlocks; ++b) blocks.push_back({x, b});
  const Eigen::MatrixXd all = covariance.matrix(blocks);
  EXPECT_LE((all - expected.cast<double>()).norm(), 1e-12 * all.norm());
  EXPECT_EQ(all, all.transpose());
  // One by one, in another order, and by another object: the same bits.
  const Covariance other(problem, on_cpu(CovarianceAlgorithm::sparse_qr));
  for (const auto& [a, b] : {std::pair{31, 2}, {7, 8}, {0, 59}, {5, 5}, {2, 31}, {44, 17}})
    EXPECT_EQ(other.block(blocks[a], blocks[b]), all.block(3 * a, 3 * b, 3, 3)) << a << ", " << b;
}

/// JᵀJ has lost half of its digits here, and J has not.
TEST(Covariance, KeepsTheDigitsOfTheJacobian) {
  std::vector<double> v = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  constexpr double kApart = 0x1p-20;
  problem.add_residual(x[0] + x[1]);
  problem.add_residual(x[0] + (1 + kApart) * x[1]);
  Exact J(2, 2);
  J << 1, 1, 1, 1 + static_cast<long double>(kApart);
  const Exact inverse = J.inverse(), expected = inverse * inverse.transpose();
  const Covariance covariance(problem, on_cpu(CovarianceAlgorithm::sparse_qr));
  EXPECT_EQ(covariance.rank(), 2u);
  const Eigen::MatrixXd all = covariance.matrix({{x, 0}, {x, 1}});
  EXPECT_LE((all - expected.cast<double>()).norm(), 1e-8 * all.norm());
}

TEST(Covariance, NamesWhatHasNoInformation) {
  std::vector<double> v = {1, 2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  problem.add_residual(x[0] - x[1]);
  problem.add_residual(2.0 * x[0]);
  const auto error = [&](const CovarianceOptions& options) {
    try {
      Covariance(problem, options).block({x, 2}, {x, 0});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const char* const text =
      "covariance: the residuals do not determine parameter array 0, block 2, coordinate 0, on "
      "which no residual depends (the Jacobian has rank 2 of 3); dense_svd with null_space_rank "
      "−1 gives the pseudo-inverse";
  // (JᵀJ)⁻¹ of x₀ and x₁, J = [1 −1; 2 0].
  const Eigen::Matrix2d inverse = (Eigen::Matrix2d() << 0.25, 0.25, 0.25, 1.25).finished();
  for (const CovarianceAlgorithm algorithm : kBoth) {
    EXPECT_EQ(error(on_cpu(algorithm)), text);
    const Covariance covariance(problem, on_cpu(algorithm));
    EXPECT_EQ(covariance.rank(), 2u);
    EXPECT_LE((covariance.matrix({{x, 0}, {x, 1}}) - inverse).norm(), 1e-14);
    EXPECT_TRUE(covariance.determines({x, 1}));
    EXPECT_FALSE(covariance.determines({x, 2}));
    EXPECT_EQ(covariance.undetermined(),
              std::vector<std::string>{"parameter array 0, block 2, coordinate 0"});
  }
  CovarianceOptions options = on_cpu(CovarianceAlgorithm::dense_svd);
  options.null_space_rank = -1;
  const Covariance covariance(problem, options);
  EXPECT_EQ(covariance.rank(), 2u);
  // The pseudo-inverse has nothing of x₂.
  Eigen::Matrix3d expected = Eigen::Matrix3d::Zero();
  expected.topLeftCorner(2, 2) = inverse;
  const Eigen::MatrixXd all = covariance.matrix({{x, 0}, {x, 1}, {x, 2}});
  EXPECT_LE((all - expected).norm(), 1e-14);
  options.min_reciprocal_condition_number = 0;
  EXPECT_EQ(error(options), "covariance: min_reciprocal_condition_number must be > 0, got 0");
}

/// Random rows of random rank, some with dependent and unread columns, in several components. The
/// reference is the pseudo-inverse: coordinates that it determines have no part in the null space.
TEST(Covariance, GivesWhatIsDetermined) {
  std::uint64_t state = 7;
  const auto random = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  int determined = 0, undetermined = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int n = 2 + static_cast<int>(random() * 10), m = 1 + static_cast<int>(random() * 14);
    Eigen::MatrixXd J = Eigen::MatrixXd::Zero(m, n);
    for (int r = 0; r < m; ++r) {
      // Rows of two or three entries; every third problem has units of 10^±8.
      for (int k = 0; k < 3; ++k)
        J(r, static_cast<int>(random() * n)) = 1 + static_cast<int>(random() * 3);
    }
    Eigen::VectorXd units = Eigen::VectorXd::Ones(n);
    for (int k = 0; k < n && trial % 3 == 0; ++k) units[k] = std::pow(10, 16 * random() - 8);
    std::vector<double> v(static_cast<std::size_t>(n), 1.0);
    Problem problem;
    const Parameters x = problem.add_parameters(v);
    for (int r = 0; r < m; ++r) {
      Value row = 0.0 * x[0] - 1.0;
      for (int k = 0; k < n; ++k)
        if (J(r, k) != 0) row = row + (J(r, k) * units[k]) * x[static_cast<std::size_t>(k)];
      problem.add_residual(row);
    }
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(J, Eigen::ComputeFullV);
    const Eigen::VectorXd& values = svd.singularValues();
    Eigen::Index rank = 0;
    while (rank < values.size() && values[rank] > 1e-10 * values[0]) ++rank;
    const Eigen::MatrixXd null = svd.matrixV().rightCols(n - rank);
    const Eigen::MatrixXd half =
        svd.matrixV().leftCols(rank) * values.head(rank).cwiseInverse().asDiagonal();
    const Eigen::MatrixXd inverse = half * half.transpose();
    const Covariance covariance(problem, on_cpu(CovarianceAlgorithm::sparse_qr));
    EXPECT_EQ(covariance.rank(), static_cast<std::size_t>(rank));
    std::vector<ParameterBlock> blocks;
    std::vector<int> places;
    for (int k = 0; k < n; ++k) {
      const bool expected = null.cols() == 0 || null.row(k).norm() < 1e-9;
      EXPECT_EQ(covariance.determines({x, static_cast<std::size_t>(k)}), expected)
          << "problem " << trial << ", coordinate " << k << "\n"
          << J;
      (expected ? determined : undetermined) += 1;
      if (!expected) continue;
      blocks.push_back({x, static_cast<std::size_t>(k)});
      places.push_back(k);
    }
    const Eigen::MatrixXd found = covariance.matrix(blocks);
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t j = 0; j < places.size(); ++j)
        EXPECT_NEAR(found(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) *
                        units[places[i]] * units[places[j]],
                    inverse(places[i], places[j]), 1e-9 * inverse.norm())
            << trial;
  }
  EXPECT_GT(determined, 100);
  EXPECT_GT(undetermined, 60);
}

}  // namespace
}  // namespace topograd
