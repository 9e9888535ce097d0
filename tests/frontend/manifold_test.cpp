// Manifolds: Plus against rotations by hand, Jacobians against differences, Minus as its inverse;
// errors by text.
#include "../../frontend/manifold.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../frontend/manifold/manifold_expression.hpp"
#include "../../frontend/traced_function.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <array>
#include <cmath>
#include <numbers>

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

struct ManifoldRow {
  const char* name;
  Manifold manifold;
  std::vector<double> x;
};

std::vector<ManifoldRow> manifold_rows() {
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
  for (const ManifoldRow& row : manifold_rows()) {
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

TEST(Manifold, ExpressionsAreTheNumbers) {
  std::vector<ManifoldRow> all = manifold_rows();
  all.push_back({"so3_axis_angle at 0", Manifold::so3_axis_angle(), {0, 0, 0}});
  all.push_back({"product of products",
                 Manifold::product(Manifold::product(Manifold::sphere(2), traced_circle()),
                                   Manifold::subset(2, {0})),
                 {1, 2, 0.6, 0.8, 5, 6}});
  for (const ManifoldRow& row : all) {
    SCOPED_TRACE(row.name);
    const Manifold& m = row.manifold;
    const int n = m.ambient_size(), t = m.tangent_size();
    const auto width = static_cast<std::size_t>(n), tangent = static_cast<std::size_t>(t);
    const detail::TracedFunction f =
        detail::trace_function("test", width + tangent, [&](std::span<const Value> v) {
          return plus_expression(m, v.first(width), v.subspan(width));
        });
    for (const double length : {0.0, 1e-9, 0.4}) {
      std::vector<double> arguments = row.x;
      Vector delta(t);
      for (int k = 0; k < t; ++k) delta[k] = length * (1 - 0.7 * k);
      arguments.insert(arguments.end(), delta.begin(), delta.end());
      const std::vector<double> got =
          ir::evaluate<double>(f.program, {arguments, f.numbers, {}, {}, {}});
      const Vector expected = plus(m, row.x, delta);
      for (int k = 0; k < n; ++k)
        EXPECT_NEAR(got[static_cast<std::size_t>(k)], expected[k], 1e-14 * expected.norm());
    }
    std::vector<std::uint32_t> slots;
    for (std::size_t k = 0; k < tangent; ++k)
      slots.push_back(static_cast<std::uint32_t>(width + k));
    std::vector<double> at_rest = row.x;
    at_rest.resize(width + tangent, 0.0);
    const std::vector<double> got = ir::evaluate<double>(autodiff::jacobian(f.program, slots),
                                                         {at_rest, f.numbers, {}, {}, {}});
    std::vector<double> expected(width * tangent);
    ASSERT_TRUE(m.plus_jacobian(row.x.data(), expected.data()));
    const double norm = Eigen::Map<const Vector>(expected.data(), n * t).norm();
    for (std::size_t k = 0; k < expected.size(); ++k)
      EXPECT_NEAR(got[k], expected[k], 1e-12 * norm) << k;
  }
}

TEST(Manifold, OpaqueOnesHaveNoExpression) {
  class Opaque final : public ManifoldModel {
   public:
    int ambient_size() const override { return 1; }
    int tangent_size() const override { return 1; }
    std::string name() const override { return "opaque"; }
    bool plus(const double* x, const double* delta, double* out) const override {
      *out = *x + *delta;
      return true;
    }
    bool plus_jacobian(const double*, double* jacobian) const override {
      *jacobian = 1;
      return true;
    }
  };
  const Manifold opaque(std::make_shared<const Opaque>());
  const std::vector<Value> none;
  EXPECT_TRUE(plus_expression(opaque, none, none).empty());
  detail::trace_function("test", 4, [&](std::span<const Value> v) {
    const Manifold both = Manifold::product(Manifold::euclidean(1), opaque);
    EXPECT_TRUE(plus_expression(both, v.first(2), v.subspan(2)).empty());
    return std::vector<Value>{v[0]};
  });
}

TEST(Manifold, MinusUndoesPlus) {
  for (const ManifoldRow& row : manifold_rows()) {
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

TEST(Manifold, MinusOfAPointAndItselfIsZero) {
  for (const ManifoldRow& row : manifold_rows()) {
    if (row.manifold.name() == "circle") continue;
    SCOPED_TRACE(row.name);
    Vector delta = Vector::Constant(row.manifold.tangent_size(), NAN);
    ASSERT_TRUE(row.manifold.minus(row.x.data(), row.x.data(), delta.data()));
    EXPECT_LE(delta.norm(), 1e-15);
  }
}

// Near 0 the quadratic term of the inverse left Jacobian I - X/2 + k X² has
// k = 1/t² - cot(t/2) / (2t), and X² = x xᵀ - t² I.
TEST(Manifold, TheJacobianOfSmallAxisAnglesHasItsSmallTerms) {
  for (const double length : {2e-3, 7e-3, 9.9e-3, 1.01e-2, 0.1}) {
    const double a = length * std::sqrt(0.5);
    const std::array<double, 3> x = {a, a, 0};
    std::array<double, 9> jacobian = {};
    ASSERT_TRUE(Manifold::so3_axis_angle().plus_jacobian(x.data(), jacobian.data()));
    const long double t = std::hypot(static_cast<long double>(a), static_cast<long double>(a));
    const long double k = 1 / (t * t) - 1 / (2 * t * std::tan(t / 2));
    const auto expected = static_cast<double>(k * a * a);
    EXPECT_NEAR(jacobian[1] / expected, 1, length < 1e-2 ? 1e-12 : 1e-10) << length;
  }
}

// The left Jacobian is I + a X + b X² with a = (1 − cos t) / t². Off the diagonal a stands alone
// where x is along an axis.
TEST(Manifold, TheInverseOfThatJacobianHasItsSmallTerms) {
  for (const double length : {2e-3, 7e-3, 9.9e-3, 1.01e-2, 0.1}) {
    const std::array<double, 3> x = {length, 0, 0};
    std::array<double, 9> jacobian = {};
    ASSERT_TRUE(Manifold::so3_axis_angle().minus_jacobian(x.data(), jacobian.data()));
    const long double t = length, sine = std::sin(t / 2);
    const auto expected = static_cast<double>(2 * sine * sine / t);
    EXPECT_NEAR(jacobian[7] / expected, 1, 1e-12) << length;
    EXPECT_EQ(jacobian[5], -jacobian[7]);
  }
}

// A part without derivatives leaves the product without them.
TEST(Manifold, ProductsHaveTheDerivativesOfAllTheirParts) {
  class Positive final : public ManifoldModel {
   public:
    int ambient_size() const override { return 1; }
    int tangent_size() const override { return 1; }
    std::string name() const override { return "positive"; }
    bool plus(const double* x, const double* delta, double* out) const override {
      *out = *x * std::exp(*delta);
      return *x > 0;
    }
    bool plus_jacobian(const double* x, double* jacobian) const override {
      *jacobian = *x;
      return *x > 0;
    }
  };
  const Manifold both =
      Manifold::product(Manifold::euclidean(1), Manifold(std::make_shared<const Positive>()));
  std::array<double, 4> jacobian = {};
  for (const double x : {4.0, -4.0}) {
    const std::array<double, 2> at = {1, x};
    EXPECT_EQ(both.plus_jacobian(at.data(), jacobian.data()), x > 0);
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

TEST(Manifold, TheOppositePointOfASphereIsHalfATurnAway) {
  for (const int size : {2, 3, 4}) {
    const Manifold sphere = Manifold::sphere(size);
    for (const double last : {0.0, 2.0, -3.0}) {
      Vector x = Vector::Unit(size, 0);
      if (last != 0) x = Vector::Unit(size, size - 1) * last;
      Vector delta(size - 1);
      const Vector y = -x;
      ASSERT_TRUE(sphere.minus(y.data(), x.data(), delta.data()));
      EXPECT_NEAR(delta.norm(), std::numbers::pi, 1e-15) << size << " " << last;
      const std::vector<double> start(x.data(), x.data() + size);
      EXPECT_NEAR((plus(sphere, start, delta) - y).norm(), 0, 1e-14) << size << " " << last;
    }
  }
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
