// Vectors and geometry against formulas in long double, and their derivatives at degenerate points.
#include "../../frontend/geometry.hpp"
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "evaluated.hpp"
#include "reference.hpp"

namespace topograd::test {
namespace {

using Wide = std::array<long double, 3>;

Wide wide_cross(const Wide& a, const Wide& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// exp([a]x) v by its power series, which converges for every a.
Wide rotated(const Wide& a, const Wide& v) {
  Wide sum = v, term = v;
  for (int k = 1; k < 60; ++k) {
    term = wide_cross(a, term);
    for (int c = 0; c < 3; ++c) sum[c] += term[c] /= static_cast<long double>(k);
  }
  return sum;
}

TEST(Rotate, IsTheExponentialOfTheCrossProduct) {
  const Numbers v = {0.3, -1.2, 0.8};
  const Numbers directions[] = {{1, 0, 0}, {0.6, -0.48, 0.64}, {-0.36, 0.48, 0.8}};
  // Both sides of the switch to the series at |a| = 2^-6 = 0.015625, and a full turn.
  const double angles[] = {0, 1e-300, 1e-9, 1e-3, 0.0156, 0.015625, 0.0157, 0.5, 3.0, 3.2, 6.28319};
  for (const Numbers& direction : directions) {
    for (const double angle : angles) {
      SCOPED_TRACE(angle);
      Numbers values;
      for (const double d : direction) values.push_back(angle * d);
      values.insert(values.end(), v.begin(), v.end());
      const Evaluated e =
          evaluate(values, [](const Parameters& x) { return list(rotate(vec(x, 0), vec(x, 3))); });
      const Wide a = {values[0], values[1], values[2]};
      const Wide r = rotated(a, {v[0], v[1], v[2]});
      for (int row = 0; row < 3; ++row) {
        EXPECT_NEAR(e.rows[row], static_cast<double>(r[row]), 1e-15 * 4);
        for (int k = 0; k < 6; ++k) {
          constexpr long double kStep = 1e-6L;
          Wide up = a, down = a, v_up = {v[0], v[1], v[2]}, v_down = v_up;
          (k < 3 ? up[k] : v_up[k - 3]) += kStep;
          (k < 3 ? down[k] : v_down[k - 3]) -= kStep;
          const long double difference = (rotated(up, v_up)[row] - rotated(down, v_down)[row]);
          EXPECT_NEAR(e.jacobian[row * 6 + k], static_cast<double>(difference / (2 * kStep)),
                      1e-11);
        }
      }
    }
  }
}

TEST(Norm, IsTheLengthAndItsDerivativeIsTheDirection) {
  const Evaluated e =
      evaluate({2, -3, 6}, [](const Parameters& x) { return std::vector{norm(vec(x, 0))}; });
  EXPECT_EQ(e.rows[0], 7.0);
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(e.jacobian[k], (Numbers{2, -3, 6}[k]) / 7.0, 1e-15);
}

TEST(Norm, DerivativesAtZeroAreZeroAndNaNStaysNaN) {
  const auto f = [](const Parameters& x) {
    const Vec3 v = vec(x, 0), unit = normalize(v);
    return std::vector{norm(v), distance(v, v * 2.0), unit.x, unit.y, unit.z};
  };
  const Evaluated zero = evaluate({0, 0, -0.0}, f);
  for (const double row : zero.rows) EXPECT_EQ(row, 0.0);
  for (const double d : zero.jacobian) EXPECT_EQ(d, 0.0);
  for (const double row : evaluate({1, NAN, 0}, f).rows) EXPECT_TRUE(std::isnan(row));
}

TEST(Normalize, HasLengthOneAndATangentialDerivative) {
  const Numbers v = {2, -3, 6};
  const Evaluated e = evaluate(v, [](const Parameters& x) { return list(normalize(vec(x, 0))); });
  for (int r = 0; r < 3; ++r) {
    EXPECT_NEAR(e.rows[r], v[r] / 7, 1e-15);
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(e.jacobian[3 * r + k], ((r == k) - v[r] * v[k] / 49) / 7, 1e-15);
  }
}

TEST(Vectors, OperatorsWorkByComponent) {
  const std::array<double, 3> c = {10, 20, 30};
  const struct {
    const char* name;
    std::function<Vec3(const Vec3& a, const Vec3& b)> call;
    Numbers expected;
  } rows[] = {
      {"a + b", [](auto& a, auto& b) { return a + b; }, {5, 7, 9}},
      {"a - b", [](auto& a, auto& b) { return a - b; }, {-3, -3, -3}},
      {"-a", [](auto& a, auto&) { return -a; }, {-1, -2, -3}},
      {"a * 2", [](auto& a, auto&) { return a * 2.0; }, {2, 4, 6}},
      {"2 * a", [](auto& a, auto&) { return 2 * a; }, {2, 4, 6}},
      {"a / 2", [](auto& a, auto&) { return a / 2; }, {0.5, 1, 1.5}},
      {"a * b.x", [](auto& a, auto& b) { return a * b.x; }, {4, 8, 12}},
      {"array - a", [&](auto& a, auto&) { return c - a; }, {9, 18, 27}},
      {"a + array", [&](auto& a, auto&) { return a + c; }, {11, 22, 33}},
      {"a x b", [](auto& a, auto& b) { return cross(a, b); }, {-3, 6, -3}},
      {"lerp", [](auto& a, auto& b) { return lerp(a, b, 0.5); }, {2.5, 3.5, 4.5}},
      {"select", [](auto& a, auto& b) { return select(a.x > b.x, a, b); }, {4, 5, 6}},
      {"assigned",
       [&](auto& a, auto& b) {
         Vec3 v = a;
         v += b;
         v -= c;
         v *= 2.0;
         v /= literal(4.0);
         return v;
       },
       {-2.5, -6.5, -10.5}},
  };
  for (const auto& row : rows) {
    const Evaluated e = evaluate({1, 2, 3, 4, 5, 6}, [&](const Parameters& x) {
      return list(row.call(vec(x, 0), vec(x, 3)));
    });
    EXPECT_EQ(e.rows, row.expected) << row.name;
  }
}

TEST(Vectors, ReductionsOfEverySize) {
  const Evaluated e = evaluate({1, 2, 3, 4, 5, 6, 7, 8}, [](const Parameters& x) {
    const Vec2 a2{x[0], x[1]}, b2{x[4], x[5]};
    const Vec4 a4{x[0], x[1], x[2], x[3]}, b4{x[4], x[5], x[6], x[7]};
    return std::vector{dot(a2, b2),
                       dot(vec(x, 0), vec(x, 4)),
                       dot(a4, b4),
                       squared_norm(a2),
                       squared_norm(vec(x, 0)),
                       squared_norm(a4),
                       norm(b2 - a2),
                       norm(a4),
                       cross(a2, b2),
                       squared_distance(a2, b2),
                       distance(a4, b4)};
  });
  const Numbers expected = {17, 38, 70, 5, 14, 30, std::sqrt(32.0), std::sqrt(30.0), -4, 32, 8};
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_DOUBLE_EQ(e.rows[k], expected[k]) << k;
}

TEST(Triangle, RightTriangleInClosedForm) {
  // Corners 0, (3, 0, 0), (0, 4, 0).
  const Evaluated e = evaluate({0, 0, 0, 3, 0, 0, 0, 4, 0}, [](const Parameters& x) {
    const Vec3 a = vec(x, 0), b = vec(x, 3), c = vec(x, 6);
    const Vec3 n = triangle_normal(a, b, c), twice = triangle_cross(a, b, c);
    return std::vector{triangle_area(a, b, c),
                       n.x,
                       n.y,
                       n.z,
                       twice.z,
                       interior_angle(a, b, c),
                       interior_angle(b, c, a),
                       cotangent(a, b, c),
                       cotangent(b, c, a),
                       cotangent(c, a, b)};
  });
  const Numbers expected = {6, 0, 0, 1, 12, std::acos(0.0), std::atan2(4.0, 3.0), 0, 0.75, 4.0 / 3};
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(e.rows[k], expected[k], 1e-15) << k;
}

TEST(Triangle, DegenerateTrianglesHaveFiniteValuesAndDerivatives) {
  const Evaluated e = evaluate({1, 1, 1, 2, 2, 2, 3, 3, 3}, [](const Parameters& x) {
    const Vec3 a = vec(x, 0), b = vec(x, 3), c = vec(x, 6), n = triangle_normal(a, b, c);
    return std::vector{triangle_area(a, b, c), n.x, n.y, n.z, angle(b - a, c - a),
                       angle(a - a * 1.0, b)};
  });
  for (const double row : e.rows) EXPECT_EQ(row, 0.0);
  for (const double d : e.jacobian) EXPECT_TRUE(std::isfinite(d)) << d;
}

}  // namespace
}  // namespace topograd::test
