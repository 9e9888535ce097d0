// Manifolds: consistency of Plus, Minus and their Jacobians, by differences.
#include <gtest/gtest.h>

#include <Eigen/Core>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ceres/ceres.h"

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

struct Row {
  std::string name;
  std::shared_ptr<ceres::Manifold> manifold;
  std::vector<double> x, delta;
};

struct Shear {
  template <typename T>
  bool Plus(const T* x, const T* delta, T* sum) const {
    sum[0] = x[0] + delta[0];
    sum[1] = x[1] * exp(delta[0]);
    return true;
  }
  template <typename T>
  bool Minus(const T* y, const T* x, T* difference) const {
    difference[0] = y[0] - x[0];
    return true;
  }
};

std::vector<Row> Rows() {
  using Product = ceres::ProductManifold<ceres::QuaternionManifold, ceres::EuclideanManifold<3>>;
  const double h = 0.5;  // (h, h, h, h) is a unit quaternion
  return {
      {"euclidean", std::make_shared<ceres::EuclideanManifold<3>>(), {1, 2, 3}, {.1, .2, .3}},
      {"dynamic", std::make_shared<ceres::EuclideanManifold<ceres::DYNAMIC>>(2), {1, 2}, {.1, .2}},
      {"subset",
       std::make_shared<ceres::SubsetManifold>(3, std::vector<int>{1}),
       {1, 2, 3},
       {.1, .2}},
      {"quaternion", std::make_shared<ceres::QuaternionManifold>(), {h, -h, h, h}, {.1, -.2, .3}},
      {"eigen", std::make_shared<ceres::EigenQuaternionManifold>(), {h, -h, h, h}, {.1, -.2, .3}},
      {"sphere", std::make_shared<ceres::SphereManifold<3>>(), {2, -1, .5}, {.1, -.2}},
      {"sphere pole", std::make_shared<ceres::SphereManifold<3>>(), {0, 0, -2}, {.1, -.2}},
      {"line", std::make_shared<ceres::LineManifold<3>>(), {1, 2, 3, 2, -1, .5}, {.1, -.2, .3, .1}},
      {"product", std::make_shared<Product>(), {h, h, h, h, 1, 2, 3}, {.1, .2, .3, 4, 5, 6}},
      {"autodiff", std::make_shared<ceres::AutoDiffManifold<Shear, 2, 1>>(), {1, 2}, {.1}},
  };
}

TEST(CeresManifold, PlusAndMinusAreInverse) {
  for (const Row& row : Rows()) {
    const ceres::Manifold& m = *row.manifold;
    ASSERT_EQ(static_cast<std::size_t>(m.AmbientSize()), row.x.size()) << row.name;
    ASSERT_EQ(static_cast<std::size_t>(m.TangentSize()), row.delta.size()) << row.name;
    Vector y(m.AmbientSize()), back(m.TangentSize()), same(m.AmbientSize());
    const std::vector<double> zero(row.delta.size(), 0.0);
    ASSERT_TRUE(m.Plus(row.x.data(), zero.data(), same.data()));
    EXPECT_NEAR((same - Vector::Map(row.x.data(), same.size())).norm(), 0, 1e-15) << row.name;
    ASSERT_TRUE(m.Plus(row.x.data(), row.delta.data(), y.data()));
    ASSERT_TRUE(m.Minus(y.data(), row.x.data(), back.data()));
    EXPECT_NEAR((back - Vector::Map(row.delta.data(), back.size())).norm(), 0, 1e-14) << row.name;
  }
}

TEST(CeresManifold, JacobiansAreDerivatives) {
  for (const Row& row : Rows()) {
    const ceres::Manifold& m = *row.manifold;
    Matrix plus(m.AmbientSize(), m.TangentSize()), minus(m.TangentSize(), m.AmbientSize());
    ASSERT_TRUE(m.PlusJacobian(row.x.data(), plus.data()));
    ASSERT_TRUE(m.MinusJacobian(row.x.data(), minus.data()));
    const double h = 1e-6;
    for (int k = 0; k < m.TangentSize(); ++k) {
      Vector above(m.AmbientSize()), below(m.AmbientSize());
      Vector step = Vector::Unit(m.TangentSize(), k) * h;
      m.Plus(row.x.data(), step.data(), above.data());
      step = -step;
      m.Plus(row.x.data(), step.data(), below.data());
      EXPECT_NEAR(((above - below) / (2 * h) - plus.col(k)).norm(), 0, 1e-8) << row.name;
    }
    // Minus undoes Plus to first order.
    EXPECT_NEAR((minus * plus - Matrix::Identity(m.TangentSize(), m.TangentSize())).norm(), 0,
                1e-14)
        << row.name;
    const Matrix ambient = Matrix::Random(3, m.AmbientSize());
    Matrix tangent(3, m.TangentSize());
    ASSERT_TRUE(m.RightMultiplyByPlusJacobian(row.x.data(), 3, ambient.data(), tangent.data()));
    EXPECT_NEAR((tangent - ambient * plus).norm(), 0, 1e-14) << row.name;
  }
}

// Plus as Ceres' manual defines it: exp of half the turn, times x.
TEST(CeresManifold, QuaternionsTurnFromTheLeft) {
  const double x[4] = {1, 0, 0, 0}, delta[3] = {0, 0, M_PI / 4};
  double y[4];
  ceres::QuaternionManifold().Plus(x, delta, y);
  EXPECT_NEAR(y[0], std::cos(M_PI / 4), 1e-15);
  EXPECT_NEAR(y[3], std::sin(M_PI / 4), 1e-15);
}

}  // namespace
