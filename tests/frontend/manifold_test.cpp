// Manifolds: Plus against rotations by hand, Jacobians against differences, Minus as its inverse;
// errors by text.
#include <topograd/frontend/manifold.hpp>
#include <topograd/frontend/math.hpp>
#include <topograd/ir/error.hpp>

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <cmath>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Manifold traced_circle() {
  // x turned by the angle δ.
  return Manifold::custom(
      2, 1,
      [](std::span<const Value> x, std::span<const Value> delta) {
        const Value c = cos(delta[0]), s = sin(delta[0]);
        return std::vector<Value>{c * x[0] - s * x[1], s * x[0] + c * x[1]};
      },
      "circle");
}

struct Row {
  const char* name;
  Manifold manifold;
  std::vector<double> x;
};

std::vector<Row> rows() {
  const double h = std::sqrt(0.5);
  return {{"quaternion", Manifold::quaternion(), {0.5, -0.5, 0.1, std::sqrt(0.49)}},
          {"eigen_quaternion", Manifold::eigen_quaternion(), {0.6, 0, -0.48, 0.64}},
          {"so3_axis_angle", Manifold::so3_axis_angle(), {0.3, -1.1, 0.7}},
          {"so3_axis_angle near 0", Manifold::so3_axis_angle(), {1e-3, 2e-3, -1e-3}},
          {"sphere", Manifold::sphere(4), {1, -2, 0.5, 3}},
          {"sphere, last coordinate negative", Manifold::sphere(3), {0.2, 0.1, -4}},
          {"sphere, at the pole", Manifold::sphere(3), {0, 0, 2}},
          {"sphere, near the pole", Manifold::sphere(3), {1e-9, 0, 2}},
          {"subset", Manifold::subset(3, {1}), {1, 2, 3}},
          {"product",
           Manifold::product(Manifold::quaternion(), Manifold::euclidean(2)),
           {h, 0, h, 0, 5, 6}},
          {"custom", traced_circle(), {0.6, 0.8}}};
}

Vector plus(const Manifold& m, const std::vector<double>& x, const Vector& delta) {
  Vector out(m.ambient_size());
  EXPECT_TRUE(m.plus(x.data(), delta.data(), out.data()));
  return out;
}

TEST(Manifold, JacobiansAreThoseOfDifferences) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Manifold& m = row.manifold;
    const int n = m.ambient_size(), t = m.tangent_size();
    const Vector x = Eigen::Map<const Vector>(row.x.data(), n);
    EXPECT_LE((plus(m, row.x, Vector::Zero(t)) - x).norm(), 4e-16 * x.norm());
    Matrix jacobian(n, t), differences(n, t);
    ASSERT_TRUE(m.plus_jacobian(row.x.data(), jacobian.data()));
    const double h = 1e-5;
    for (int k = 0; k < t; ++k)
      differences.col(k) =
          (plus(m, row.x, h * Vector::Unit(t, k)) - plus(m, row.x, -h * Vector::Unit(t, k))) /
          (2 * h);
    EXPECT_LE((jacobian - differences).norm(), 2e-9 * jacobian.norm());
  }
}

TEST(Manifold, MinusUndoesPlus) {
  for (const Row& row : rows()) {
    if (row.manifold.name() == "circle") continue;
    SCOPED_TRACE(row.name);
    const Manifold& m = row.manifold;
    const int n = m.ambient_size(), t = m.tangent_size();
    const Vector delta = 0.4 * Vector::LinSpaced(t, -1, 0.8);
    const Vector y = plus(m, row.x, delta);
    Vector back(t);
    ASSERT_TRUE(m.minus(y.data(), row.x.data(), back.data()));
    EXPECT_LE((back - delta).norm(), 1e-14);
    Matrix forth(n, t), inverse(t, n);
    m.plus_jacobian(row.x.data(), forth.data());
    m.minus_jacobian(row.x.data(), inverse.data());
    EXPECT_LE((inverse * forth - Matrix::Identity(t, t)).norm(), 1e-13);
  }
}

TEST(Manifold, QuaternionsTurnFromTheLeftByTwiceDelta) {
  const Eigen::Quaterniond q = Eigen::Quaterniond(0.5, -0.5, 0.1, 0.7).normalized();
  const Eigen::Vector3d delta(0.2, -0.3, 0.1);
  const Eigen::Quaterniond turn(Eigen::AngleAxisd(2 * delta.norm(), delta.normalized()));
  const Eigen::Quaterniond expected = turn * q;
  const Vector wxyz = plus(Manifold::quaternion(), {q.w(), q.x(), q.y(), q.z()}, delta);
  const Vector xyzw = plus(Manifold::eigen_quaternion(), {q.x(), q.y(), q.z(), q.w()}, delta);
  EXPECT_NEAR(wxyz[0], expected.w(), 1e-15);
  EXPECT_LE((wxyz.tail<3>() - expected.vec()).norm(), 1e-15);
  EXPECT_LE((xyzw - expected.coeffs()).norm(), 1e-15);
  const Eigen::AngleAxisd rotation(0.9, Eigen::Vector3d(1, 2, -2) / 3);
  const Eigen::Vector3d a = rotation.angle() * rotation.axis();
  const Eigen::AngleAxisd both(Eigen::AngleAxisd(delta.norm(), delta.normalized()) * rotation);
  const Vector axis_angle = plus(Manifold::so3_axis_angle(), {a[0], a[1], a[2]}, delta);
  EXPECT_LE((axis_angle - both.angle() * both.axis()).norm(), 1e-14);
}

TEST(Manifold, SpheresKeepTheirRadius) {
  const std::vector<double> x = {1, -2, 0.5, 3};
  const Vector y = plus(Manifold::sphere(4), x, Vector::LinSpaced(3, -2, 1));
  EXPECT_NEAR(y.norm(), std::sqrt(1 + 4 + 0.25 + 9), 1e-14);
}

TEST(Manifold, ErrorsNameWhatIsWrong) {
  const struct {
    const char* text;
    std::function<void()> call;
  } errors[] = {
      {"manifold: sphere: the size must be at least 2, got 1", [] { Manifold::sphere(1); }},
      {"manifold: subset: coordinate 3 is out of range (size is 3)",
       [] { Manifold::subset(3, {3}); }},
      {"manifold: subset: coordinate 1 is named twice",
       [] {
         Manifold::subset(3, {1, 1});
       }},
      {"manifold: a product must have at least one part", [] { Manifold::product({}); }},
      {"manifold: custom: expected 2 Values of plus, got 1",
       [] {
         Manifold::custom(2, 1, [](std::span<const Value> x, std::span<const Value> d) {
           return std::vector<Value>{x[0] + d[0]};
         });
       }},
      {"manifold: circle has no minus", [] {
         const double x[2] = {1, 0};
         double delta = 0;
         traced_circle().minus(x, x, &delta);
       }}};
  for (const auto& row : errors) {
    SCOPED_TRACE(row.text);
    try {
      row.call();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.text);
    }
  }
}

}  // namespace
}  // namespace topograd
