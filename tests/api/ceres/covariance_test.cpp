// Covariances on manifolds, of constant blocks and of problems without full rank.
#include <gtest/gtest.h>
#include "../../../ir/error.hpp"

#include <Eigen/Dense>

#include <cmath>
#include <utility>
#include <vector>

#include "ceres/ceres.h"

namespace {

using Pairs = std::vector<std::pair<const double*, const double*>>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A linear block: J times x.
ceres::CostFunction* Linear(const Matrix& J) {
  return new ceres::NormalPrior(J, ceres::Vector::Zero(J.cols()));
}

/// J x + K y.
struct Linear2And1 {
  Matrix J, K;
  template <class T>
  bool operator()(const T* x, const T* y, T* r) const {
    for (int i = 0; i < 3; ++i) r[i] = J(i, 0) * x[0] + J(i, 1) * x[1] + K(i, 0) * y[0];
    return true;
  }
};

TEST(CeresCovariance, IsTheInverseOfTheNormalMatrix) {
  double x[3] = {}, y[2] = {1, 1};
  const Matrix J = (Matrix(4, 3) << 1, 2, 0, 0, 1, 3, 2, 0, 1, 1, 1, 1).finished();
  const Matrix K = (Matrix(2, 2) << 2, 1, 0, 3).finished();
  ceres::Problem problem;
  problem.AddResidualBlock(Linear(J), nullptr, x);
  problem.AddResidualBlock(Linear(K), nullptr, y);
  for (const auto algorithm : {ceres::SPARSE_QR, ceres::DENSE_SVD}) {
    ceres::Covariance::Options options;
    options.algorithm_type = algorithm;
    ceres::Covariance covariance(options);
    ASSERT_TRUE(covariance.Compute(std::vector<const double*>{x, y}, &problem));
    Matrix all(5, 5);
    ASSERT_TRUE(covariance.GetCovarianceMatrix({x, y}, all.data()));
    Matrix expected = Matrix::Zero(5, 5);
    expected.topLeftCorner(3, 3) = (J.transpose() * J).inverse();
    expected.bottomRightCorner(2, 2) = (K.transpose() * K).inverse();
    EXPECT_NEAR((all - expected).norm(), 0, 1e-13);
    double other = 0;
    EXPECT_FALSE(covariance.GetCovarianceBlock(x, &other, &other));
  }
}

/// Programs name all pairs of their blocks, as Ceres allows.
TEST(CeresCovariance, TakesPairsInBothOrders) {
  double x[2] = {}, y[1] = {};
  const Matrix J = (Matrix(3, 2) << 1, 2, 0, 1, 3, 1).finished();
  const Matrix K = (Matrix(3, 1) << 1, 0, 2).finished();
  ceres::Problem problem;
  problem.AddResidualBlock(
      new ceres::AutoDiffCostFunction<Linear2And1, 3, 2, 1>(new Linear2And1{J, K}), nullptr, x, y);
  ceres::Covariance covariance{ceres::Covariance::Options()};
  ASSERT_TRUE(covariance.Compute(Pairs{{x, x}, {x, y}, {y, x}, {y, y}}, &problem));
  Matrix both(3, 3);
  both << J, K;
  const Matrix expected = (both.transpose() * both).inverse();
  Matrix xy(2, 1), yx(1, 2);
  ASSERT_TRUE(covariance.GetCovarianceBlock(x, y, xy.data()));
  ASSERT_TRUE(covariance.GetCovarianceBlock(y, x, yx.data()));
  EXPECT_NEAR((xy - expected.topRightCorner(2, 1)).norm(), 0, 1e-10);
  EXPECT_NEAR((yx - expected.bottomLeftCorner(1, 2)).norm(), 0, 1e-10);
}

TEST(CeresCovariance, LivesInTheTangentSpace) {
  double x[3] = {0, 0, 2};
  const Matrix J = (Matrix(3, 3) << 1, 2, 0, 0, 1, 3, 2, 0, 1).finished();
  ceres::Problem problem;
  problem.AddResidualBlock(Linear(J), nullptr, x);
  problem.SetManifold(x, new ceres::SphereManifold<3>);
  Matrix plus(3, 2);
  problem.GetManifold(x)->PlusJacobian(x, plus.data());
  ceres::Covariance covariance{ceres::Covariance::Options()};
  ASSERT_TRUE(covariance.Compute(Pairs{{x, x}}, &problem));
  Matrix tangent(2, 2), ambient(3, 3);
  ASSERT_TRUE(covariance.GetCovarianceBlockInTangentSpace(x, x, tangent.data()));
  ASSERT_TRUE(covariance.GetCovarianceBlock(x, x, ambient.data()));
  const Matrix expected = ((J * plus).transpose() * (J * plus)).inverse();
  EXPECT_NEAR((tangent - expected).norm(), 0, 1e-14);
  EXPECT_NEAR((ambient - plus * expected * plus.transpose()).norm(), 0, 1e-14);
}

TEST(CeresCovariance, ConstantBlocksDoNotVary) {
  double x[1] = {1}, y[1] = {1};
  ceres::Problem problem;
  problem.AddResidualBlock(Linear(Matrix::Constant(1, 1, 2)), nullptr, x);
  problem.AddResidualBlock(Linear(Matrix::Constant(1, 1, 2)), nullptr, y);
  problem.SetParameterBlockConstant(y);
  ceres::Covariance covariance{ceres::Covariance::Options()};
  ASSERT_TRUE(covariance.Compute(Pairs{{x, x}, {x, y}, {y, y}}, &problem));
  double xx = -1, yy = -1, yx = -1;
  EXPECT_TRUE(covariance.GetCovarianceBlock(x, x, &xx) &&
              covariance.GetCovarianceBlock(y, y, &yy) && covariance.GetCovarianceBlock(y, x, &yx));
  EXPECT_EQ(xx, 0.25);
  EXPECT_EQ(yy, 0);
  EXPECT_EQ(yx, 0);
}

TEST(CeresCovariance, NullSpacesAreLeftOutOnRequest) {
  double x[2] = {1, 1};
  ceres::Problem problem;
  problem.AddResidualBlock(Linear((Matrix(2, 2) << 1, 1, 2, 2).finished()), nullptr, x);
  ceres::Covariance::Options options;
  EXPECT_FALSE(ceres::Covariance(options).Compute(Pairs{{x, x}}, &problem));
  options.algorithm_type = ceres::DENSE_SVD;
  EXPECT_FALSE(ceres::Covariance(options).Compute(Pairs{{x, x}}, &problem));
  for (const int rank : {1, -1}) {
    options.null_space_rank = rank;
    ceres::Covariance covariance(options);
    ASSERT_TRUE(covariance.Compute(Pairs{{x, x}}, &problem)) << rank;
    double c[4];
    covariance.GetCovarianceBlock(x, x, c);
    // The pseudo-inverse of ((5, 5), (5, 5)).
    for (const double entry : c) EXPECT_NEAR(entry, 0.05, 1e-15);
  }
  ceres::Covariance covariance(options);
  EXPECT_THROW(covariance.Compute(Pairs{{x, x}, {x, x}}, &problem), topograd::Error);
}

/// What the Jacobian says about x does not depend on blocks that it does not determine.
TEST(CeresCovariance, DeterminedBlocksAreThere) {
  double x[1] = {1}, unread[2] = {5, 6}, pair[2] = {1, 2};
  ceres::Problem problem;
  for (int k = 0; k < 4; ++k)
    problem.AddResidualBlock(Linear(Matrix::Constant(1, 1, 1)), nullptr, x);
  problem.AddParameterBlock(unread, 2);
  problem.AddResidualBlock(Linear((Matrix(1, 2) << 1, -1).finished()), nullptr, pair);
  for (const auto algorithm : {ceres::SPARSE_QR, ceres::DENSE_SVD}) {
    ceres::Covariance::Options options;
    options.algorithm_type = algorithm;
    ceres::Covariance covariance(options);
    double xx = -1, other[4];
    EXPECT_TRUE(covariance.Compute(Pairs{{x, x}}, &problem));
    EXPECT_TRUE(covariance.GetCovarianceBlock(x, x, &xx));
    EXPECT_NEAR(xx, 0.25, 1e-15);
    EXPECT_TRUE(covariance.UndeterminedBlocks().empty());
    EXPECT_FALSE(covariance.Compute(std::vector<const double*>{x, unread, pair}, &problem));
    EXPECT_EQ(covariance.UndeterminedBlocks().size(), 2u);
    xx = -1;
    EXPECT_TRUE(covariance.GetCovarianceBlock(x, x, &xx));
    EXPECT_NEAR(xx, 0.25, 1e-15);
    EXPECT_FALSE(covariance.GetCovarianceBlock(pair, pair, other));
    EXPECT_FALSE(covariance.GetCovarianceBlock(unread, unread, other));
  }
}

}  // namespace
