// Dihedral angles, vertex stars, angles and distances: closed forms, differences, degenerate
// inputs.
#include <gtest/gtest.h>
#include "../../frontend/geometry.hpp"

#include <cmath>
#include <string_view>

#include "evaluated.hpp"
#include "reference.hpp"

namespace topograd::test {
namespace {

/// Vertices 0 .. n-1 of an array of unknowns.
std::vector<Vec3> points(const Parameters& x, std::size_t first, std::size_t n) {
  std::vector<Vec3> result;
  for (std::size_t k = 0; k < n; ++k) result.push_back(vec(x, first + 3 * k));
  return result;
}

TEST(Dihedral, IsTheAngleByWhichOneTriangleIsFolded) {
  for (const double fold : {-3.1, -1.5, -0.3, -1e-9, 0.0, 1e-9, 0.7, 1.6, 3.1}) {
    // The edge is along x; the second triangle is folded down by `fold`, so that the edge is a
    // ridge.
    const Numbers x = {0, 0, 0, 2, 0, 0, 0.5, 1.5, 0, 1, -std::cos(fold), -std::sin(fold)};
    const Expression f = [](const Parameters& p) {
      return std::vector{dihedral_angle(vec(p, 0), vec(p, 3), vec(p, 6), vec(p, 9))};
    };
    EXPECT_NEAR(evaluate(x, f).rows[0], fold, 2e-15) << fold;
    EXPECT_LT(difference_error(x, f), 1e-10) << fold;
    Numbers moved = x;  // no vertex at the origin
    for (std::size_t k = 0; k < moved.size(); ++k) moved[k] += Numbers{3, -2, 1}[k % 3];
    EXPECT_NEAR(evaluate(moved, f).rows[0], fold, 1e-14) << fold;
  }
}

TEST(VertexStar, DefectOfCubeCornerAndConeAndPlane) {
  const Expression defect = [](const Parameters& p) {
    return std::vector{angle_defect(vec(p, 0), points(p, 3, 3)),
                       angle_defect(vec(p, 0), points(p, 3, 3), Ring::Open)};
  };
  const Numbers cube = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  const double right = std::acos(0.0);
  EXPECT_NEAR(evaluate(cube, defect).rows[0], right, 1e-15);  // 2 pi - 3 pi / 2
  EXPECT_NEAR(evaluate(cube, defect).rows[1], 0.0, 1e-15);    // pi - 2 pi / 2
  EXPECT_LT(difference_error(cube, defect), 1e-10);
  Numbers flat = {0.1, 0.2, 0, 1, 0, 0, -0.5, 0.9, 0, -0.6, -0.8, 0};
  EXPECT_NEAR(evaluate(flat, defect).rows[0], 0.0, 2e-15);
}

TEST(VertexStar, NormalOfCubeCornerAndDegenerateStars) {
  const Expression normal = [](const Parameters& p) {
    return list(vertex_normal(vec(p, 0), points(p, 3, 3)));
  };
  const Numbers cube = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (const double n : evaluate(cube, normal).rows) EXPECT_NEAR(n, std::sqrt(1.0 / 3), 1e-15);
  EXPECT_LT(difference_error(cube, normal), 1e-10);
  const Evaluated point = evaluate(Numbers(12, 1.0), normal);
  EXPECT_EQ(point.rows, Numbers(3, 0.0));
  EXPECT_EQ(point.jacobian, Numbers(36, 0.0));
}

TEST(VertexStar, TooFewNeighboursAreAnError) {
  Single single;
  const Vec3 v{single.p[0], single.p[1], single.p[2]};
  const std::vector<Vec3> two = {v, v};
  EXPECT_EQ(error_of([&] { angle_defect(v, two); }),
            "shape: angle_defect: expected at least 3 neighbours, got 2");
  EXPECT_EQ(error_of([&] { vertex_normal(v, std::span(two).first(1), Ring::Open); }),
            "shape: vertex_normal: expected at least 2 neighbours, got 1");
}

struct GeometryRow {
  const char* name;
  Numbers values;
  Expression f;
  Numbers expected;
};

std::vector<GeometryRow> geometry_rows() {
  const auto plane = [](const Parameters& p) {
    return std::vector{point_plane_distance(vec(p, 0), vec(p, 3), vec(p, 6))};
  };
  const auto line = [](const Parameters& p) {
    return std::vector{point_line_distance(vec(p, 0), vec(p, 3), vec(p, 6))};
  };
  const auto line2 = [](const Parameters& p) {
    return std::vector{point_line_distance(Vec2{p[0], p[1]}, Vec2{p[2], p[3]}, Vec2{p[4], p[5]})};
  };
  const auto angle3 = [](const Parameters& p) { return std::vector{angle(vec(p, 0), vec(p, 3))}; };
  const auto angle2 = [](const Parameters& p) {
    const Vec2 a{p[0], p[1]}, b{p[2], p[3]};
    return std::vector{angle(a, b), signed_angle(a, b)};
  };
  const auto angle4 = [](const Parameters& p) {
    return std::vector{angle(Vec4{p[0], p[1], p[2], p[3]}, Vec4{p[4], p[5], p[6], p[7]})};
  };
  const auto parts = [](const Parameters& p) {
    std::vector<Value> rows = list(project(vec(p, 0), vec(p, 3)));
    for (const Value& v : list(reject(vec(p, 0), vec(p, 3)))) rows.push_back(v);
    return rows;
  };
  const double pi = 2 * std::acos(0.0);
  return {
      {"above a plane", {3, 4, 7, 1, 1, 5, 0, 0, 0.5}, plane, {2}},
      {"below a plane", {1, 0, 0, 2, 2, 1, 2, -1, 2}, plane, {-2.0 / 3}},
      {"off a line", {5, 3, 4, 1, 0, 0, 3, 0, 0}, line, {5}},
      {"off a line in the plane", {0, 0, 3, 0, 0, 4}, line2, {2.4}},
      {"off a line, seen from elsewhere", {-7, 5, -4, 5, -7, 9}, line2, {2.4}},
      {"right angle", {2, 0, 0, 0, 5, 0}, angle3, {pi / 2}},
      {"three quarters", {1, 0, 0, -2, 0, 2}, angle3, {0.75 * pi}},
      {"counter-clockwise", {1, 0, 0, 2}, angle2, {pi / 2, pi / 2}},
      {"clockwise", {0, 3, 1, 1}, angle2, {pi / 4, -pi / 4}},
      {"in four dimensions", {1, 1, 0, 0, 1, 1, 1, 1}, angle4, {pi / 4}},
      {"parts", {1, 2, 3, 0, 0, 2}, parts, {0, 0, 3, 1, 2, 0}},
      {"triangle",
       {1, 2, 3, 2, 2, 5, 0, 7, 1},
       [](const Parameters& p) {
         const Vec3 a = vec(p, 0), b = vec(p, 3), c = vec(p, 6);
         return std::vector{triangle_area(a, b, c), cotangent(a, b, c)};
       },
       // u = (1, 0, 2), v = (-1, 5, -2), u x v = (-10, 0, 5)
       {std::sqrt(125.0) / 2, -5 / std::sqrt(125.0)}},
  };
}

TEST(Geometry, ClosedFormsAndDifferences) {
  for (const GeometryRow& row : geometry_rows()) {
    SCOPED_TRACE(row.name);
    const Evaluated e = evaluate(row.values, row.f);
    ASSERT_EQ(e.rows.size(), row.expected.size());
    for (std::size_t k = 0; k < e.rows.size(); ++k) EXPECT_NEAR(e.rows[k], row.expected[k], 2e-15);
    EXPECT_LT(difference_error(row.values, row.f), 1e-9);
  }
}

TEST(Geometry, DegenerateInputsHaveFiniteValuesAndDerivatives) {
  for (const GeometryRow& row : geometry_rows()) {
    if (std::string_view(row.name) == "triangle") continue;  // its cotangent is infinite
    SCOPED_TRACE(row.name);
    const Evaluated e = evaluate(Numbers(row.values.size(), 0.0), row.f);
    EXPECT_EQ(e.rows, Numbers(e.rows.size(), 0.0));
    for (const double d : e.jacobian) EXPECT_TRUE(std::isfinite(d)) << d;
  }
  const Evaluated from_point = evaluate({4, 4, 1, 1, 1, 1, 1, 1, 1}, [](const Parameters& p) {
    return std::vector{point_line_distance(vec(p, 0), vec(p, 3), vec(p, 6))};
  });
  EXPECT_DOUBLE_EQ(from_point.rows[0], std::sqrt(18.0));
}

}  // namespace
}  // namespace topograd::test
