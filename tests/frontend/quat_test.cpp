// Quaternions: both storage orders, their algebra, and their relation to manifolds.
#include "../../frontend/quat.hpp"

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <array>
#include <cmath>
#include <numbers>
#include <sstream>

#include "evaluated.hpp"

namespace topograd::test {
namespace {

std::vector<Value> rows_of(const Quat& q) { return {q.w, q.x, q.y, q.z}; }

Quat quat(const Parameters& x, std::size_t first) {
  return from_wxyz({x[first], x[first + 1], x[first + 2], x[first + 3]});
}

Eigen::Quaterniond eigen(const Numbers& x, std::size_t first = 0) {
  return {x[first], x[first + 1], x[first + 2], x[first + 3]};
}

void expect_near(const Numbers& rows, const Eigen::Quaterniond& q, double tolerance) {
  const double expected[] = {q.w(), q.x(), q.y(), q.z()};
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(rows[k], expected[k], tolerance) << k;
}

TEST(Quat, NumbersLieInTheOrderThatTheCallNames) {
  std::vector<double> memory(8);
  Problem problem;
  const Parameters x = problem.add_parameters(memory, 4);
  const auto text = [](const Quat& q) {
    std::ostringstream out;
    out << q;
    return out.str();
  };
  EXPECT_EQ(text(x.quat(1)), "(w: x[4], x: x[5], y: x[6], z: x[7])");
  EXPECT_EQ(text(x.eigen_quat(1)), "(w: x[7], x: x[4], y: x[5], z: x[6])");
  EXPECT_EQ(text(from_wxyz(to_wxyz(x.quat(0)))), text(x.quat(0)));
  EXPECT_EQ(text(from_xyzw(to_xyzw(x.quat(0)))), text(x.quat(0)));
}

TEST(Quat, AManifoldAndRotateMeanTheSameTurn) {
  struct Row {
    Manifold manifold;
    Numbers identity;
    Quat (*read)(const Vec4&);
  };
  for (const Row& row : {Row{Manifold::quaternion(), {1, 0, 0, 0}, from_wxyz},
                         Row{Manifold::eigen_quaternion(), {0, 0, 0, 1}, from_xyzw}}) {
    const Expression turned = [&](const Parameters& p) {
      return list(
          rotate(row.read({p[0], p[1], p[2], p[3]}), Vec3{literal(1), literal(0), literal(0)}));
    };
    EXPECT_EQ(evaluate(row.identity, turned).rows, (Numbers{1, 0, 0})) << row.manifold.name();
    const double quarter[] = {0, 0, std::acos(-1) / 4};  // half the angle about z
    Numbers q(4);
    ASSERT_TRUE(row.manifold.plus(row.identity.data(), quarter, q.data()));
    const Numbers y = evaluate(q, turned).rows;
    EXPECT_NEAR(y[0], 0, 1e-15) << row.manifold.name();
    EXPECT_NEAR(y[1], 1, 1e-15) << row.manifold.name();
  }
}

TEST(Quat, ProductAndConjugateAreThoseOfEigen) {
  const Numbers x = {0.5, -0.5, 0.1, 0.7, 1, 2, -3, 0.25};
  const Expression product = [](const Parameters& p) { return rows_of(quat(p, 0) * quat(p, 4)); };
  const Expression conjugated = [](const Parameters& p) { return rows_of(conjugate(quat(p, 0))); };
  const Expression unit = [](const Parameters& p) { return rows_of(normalize(quat(p, 4))); };
  expect_near(evaluate(x, product).rows, eigen(x) * eigen(x, 4), 1e-15);
  expect_near(evaluate(x, conjugated).rows, eigen(x).conjugate(), 0);
  expect_near(evaluate(x, unit).rows, eigen(x, 4).normalized(), 1e-15);
  for (const Expression& f : {product, conjugated, unit}) EXPECT_LT(difference_error(x, f), 1e-9);
}

TEST(Quat, OfAnAxisAngleAndBack) {
  const Expression there = [](const Parameters& p) { return rows_of(from_axis_angle(vec(p, 0))); };
  const Expression back = [](const Parameters& p) {
    return list(to_axis_angle(from_axis_angle(vec(p, 0))));
  };
  // The same turn by the other quaternion.
  const Expression back_from_other = [](const Parameters& p) {
    const Quat q = from_axis_angle(vec(p, 0));
    return list(to_axis_angle({-q.w, -q.x, -q.y, -q.z}));
  };
  // Half a turn about an axis is a turn by π about it, not about its opposite.
  const Expression of_quaternion = [](const Parameters& p) {
    return list(to_axis_angle({p[0], p[1], p[2], p[3]}));
  };
  const Numbers half_turn = evaluate({0, 0.6, -0.48, 0.64}, of_quaternion).rows;
  const std::array<double, 3> half_turn_axis = {0.6, -0.48, 0.64};
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_NEAR(half_turn[k], std::numbers::pi * half_turn_axis[k], 1e-14);
  for (const double angle : {0.0, 1e-9, 0.0312, 0.0313, 1.0, 3.1}) {
    const Eigen::Vector3d axis(0.6, -0.48, 0.64);
    const Numbers a = {angle * axis[0], angle * axis[1], angle * axis[2]};
    expect_near(evaluate(a, there).rows, Eigen::Quaterniond(Eigen::AngleAxisd(angle, axis)), 1e-15);
    for (const Expression& same : {back, back_from_other}) {
      const Numbers rows = evaluate(a, same).rows;
      for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(rows[k], a[k], 1e-14) << angle;
    }
    EXPECT_LT(difference_error(a, there), 1e-9) << angle;
    EXPECT_LT(difference_error(a, back), 1e-8) << angle;
  }
}

}  // namespace
}  // namespace topograd::test
