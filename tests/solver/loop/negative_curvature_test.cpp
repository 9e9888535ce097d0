// Directions in which a cost bends downwards, and the search along them.
#include <gtest/gtest.h>

#include "../../../solver/step_control/negative_curvature.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace topograd {
namespace {

constexpr double kUnit = std::numeric_limits<double>::epsilon();

QuadraticModel model_of(const Eigen::MatrixXd& hessian, const Eigen::VectorXd& gradient) {
  QuadraticModel out;
  out.hessian = hessian;
  out.gradient = gradient;
  out.squares = Eigen::VectorXd::Zero(gradient.size());
  return out;
}

// The cost a b has the eigenvalues ±1, in any units of a and b and beside any other unknown.
TEST(NegativeCurvature, IsFoundInAnyUnits) {
  for (const double a : {1.0, 1e12, 1e-150}) {
    for (const double b : {1.0, 1e-12, 1e100}) {
      for (const double slope : {0.0, 1e-3, -1e-3}) {
        Eigen::Matrix3d hessian = Eigen::Matrix3d::Zero();
        hessian(0, 1) = hessian(1, 0) = a * b;
        hessian(2, 2) = 7;
        const Eigen::Vector3d gradient(slope * a, 0, 0);
        const std::optional<NegativeCurvature> found =
            negative_curvature(model_of(hessian, gradient), kUnit);
        ASSERT_TRUE(found) << a << " " << b;
        const Eigen::VectorXd& d = found->direction;
        EXPECT_NEAR(d[0] * a * d[1] * b, -0.5, 1e-9);
        EXPECT_NEAR(d[2], 0, 1e-9);
        EXPECT_NEAR(d.dot(hessian * d), found->curvature, 1e-9);
        EXPECT_NEAR(found->curvature, -1, 1e-9);
        EXPECT_LE(d.dot(gradient), 0);
      }
    }
  }
}

TEST(NegativeCurvature, IsTheLeastEigenvalue) {
  // Rows that are settled already: the eigenvalues of this circulant matrix are
  // 1 + 2 · 0.9 cos(2πk / n).
  constexpr int kSize = 12;
  Eigen::MatrixXd hessian = Eigen::MatrixXd::Identity(kSize, kSize);
  for (int k = 0; k < kSize; ++k) hessian(k, (k + 1) % kSize) = hessian((k + 1) % kSize, k) = 0.9;
  const auto found = negative_curvature(model_of(hessian, Eigen::VectorXd::Zero(kSize)), kUnit);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->curvature, -0.8, 1e-13);
  EXPECT_NEAR((hessian * found->direction + 0.8 * found->direction).norm(), 0, 1e-7);
}

// Near the minimum of (p + 3 q)², where rounding leaves a curvature below zero, both columns are
// large and cancel along the direction.
TEST(NegativeCurvature, IsThatOfVanishedColumns) {
  QuadraticModel at =
      model_of((Eigen::Matrix2d() << 1, 3, 3, 9 - 1e-9).finished(), Eigen::Vector2d::Zero());
  for (const auto& [share, expected] :
       {std::pair{0.0, true}, {1e-11, true}, {1e-9, false}, {1.0, false}}) {
    at.squares = share * Eigen::Vector2d(1, 9);
    EXPECT_EQ(negative_curvature(at, kUnit).has_value(), expected) << share;
  }
}

// Two columns that are the same say nothing along (1, -1), and all along (1, 1).
TEST(NegativeCurvature, IsThatOfDependentColumns) {
  for (const double along : {1.0, -1.0}) {
    QuadraticModel at =
        model_of((Eigen::Matrix2d() << -1, along, along, -1).finished(), Eigen::Vector2d::Zero());
    at.squares = Eigen::Vector2d(9, 9);
    EXPECT_FALSE(negative_curvature(at, kUnit));
    at.normal = Eigen::Matrix2d::Constant(9);
    EXPECT_EQ(negative_curvature(at, kUnit).has_value(), along > 0);
  }
}

TEST(DependentColumns, AreSoInAnyUnits) {
  for (const double unit : {1.0, 1e-100, 1e100}) {
    const Eigen::Vector3d units(unit, 1 / unit, 3);
    const auto of = [&](double apart) {
      Eigen::MatrixXd j(4, 3);
      j << 1, 1, 0, 2, 2, 1, 0, apart, 1, 1, 1, 2;
      j *= units.asDiagonal();
      return has_dependent_columns(j.transpose() * j);
    };
    EXPECT_TRUE(of(0)) << unit;
    EXPECT_TRUE(of(1e-8)) << unit;
    EXPECT_FALSE(of(1e-4)) << unit;
  }
  EXPECT_FALSE(has_dependent_columns(Eigen::Matrix2d::Zero()));
}

TEST(NegativeCurvature, IsNotRounding) {
  const auto of = [](const Eigen::MatrixXd& hessian) {
    return negative_curvature(model_of(hessian, Eigen::VectorXd::Zero(hessian.rows())), kUnit);
  };
  EXPECT_FALSE(of(Eigen::MatrixXd::Identity(3, 3)));
  EXPECT_FALSE(of(Eigen::MatrixXd::Zero(3, 3)));
  EXPECT_FALSE(of(Eigen::MatrixXd::Ones(5, 5)));
  EXPECT_FALSE(of((Eigen::Matrix2d() << 1, 1, 1, 1 - 2 * kUnit).finished()));
  EXPECT_TRUE(of((Eigen::Matrix2d() << 1, 1, 1, 1 - 1e-9).finished()));
  // About half of what the last entry lacks: below 64 units for each row it is rounding.
  EXPECT_FALSE(of((Eigen::Matrix2d() << 1, 1, 1, 1 - 128 * kUnit).finished()));
  EXPECT_TRUE(of((Eigen::Matrix2d() << 1, 1, 1, 1 - 512 * kUnit).finished()));
  EXPECT_FALSE(of(Eigen::MatrixXd::Constant(2, 2, std::nan(""))));
  EXPECT_FALSE(of(Eigen::MatrixXd(0, 0)));
}

double lowest(SaddleSearch search, double (*cost)(double t)) {
  int looks = 0;
  for (; search.length() != 0 && looks < 1000; ++looks) search.judge(cost(search.length()));
  EXPECT_LT(looks, 1000);
  return search.best();
}

TEST(SaddleSearch, GoesOnWhileTheCostFalls) {
  // The minima of 1 + t⁴ − t² are at ±1/√2; with a slope, one of them is the lower.
  const auto even = [](double t) { return 1 + t * t * t * t - t * t; };
  const auto ahead = [](double t) { return 1 + t * t * t * t - t * t - 0.1 * t; };
  const auto behind = [](double t) { return 1 + t * t * t * t - t * t + 0.1 * t; };
  EXPECT_NEAR(std::abs(std::log2(lowest({1, -2, 1e-9}, even) * std::sqrt(2))), 0, 1);
  EXPECT_NEAR(std::abs(std::log2(lowest({1, -2, 1e-9}, ahead) * std::sqrt(2))), 0, 1);
  EXPECT_NEAR(std::abs(std::log2(-lowest({1, -2, 1e-9}, behind) * std::sqrt(2))), 0, 1);
}

// On the first length a parabola of this curvature falls by what counts; the next is twice as long.
TEST(SaddleSearch, BeginsWhereTheParabolaFallsByWhatCounts) {
  for (const double curvature : {-2.0, -8.0, -1e6}) {
    SaddleSearch search(1, curvature, 1e-9);
    const double first = search.length();
    EXPECT_NEAR(-curvature * first * first / 2 / 1e-9, 1, 1e-12) << curvature;
    search.judge(1 - 2e-9);
    EXPECT_EQ(search.length(), 2 * first) << curvature;
  }
}

// A cost that stays the same does not fall: each side is looked at once.
TEST(SaddleSearch, EndsWhereTheCostIsFlat) {
  SaddleSearch search(1, -2, 1e-9);
  const double first = search.length();
  search.judge(1);
  EXPECT_EQ(search.length(), -first);
  search.judge(1);
  EXPECT_EQ(search.length(), 0);
}

TEST(SaddleSearch, TakesNoLessThanCounts) {
  EXPECT_EQ(lowest({1, -2, 1e-9}, [](double) { return 1.0; }), 0);
  EXPECT_EQ(lowest({1, -2, 1e-9}, [](double t) { return 1 + t * t; }), 0);
  EXPECT_EQ(lowest({1, -2, 1e-9}, [](double) { return std::nan(""); }), 0);
  EXPECT_EQ(lowest({1, -2, 1e-3}, [](double t) { return 1 - 1e-4 * std::exp(-std::abs(t)); }), 0);
  // It falls for ever.
  EXPECT_GT(lowest({1, -2, 1e-9}, [](double t) { return -std::abs(t); }), 1e20);
}

}  // namespace
}  // namespace topograd
