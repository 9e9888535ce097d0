// Points and lines as small solids, for drawing by triangles.
#include "marks.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace topograd::draw {
namespace {

using Corners = std::array<std::uint32_t, 3>;

/// Vertices and triangles of the solids so far.
struct Solids {
  std::vector<double> positions;
  std::vector<Corners> triangles;

  std::uint32_t count() const { return static_cast<std::uint32_t>(positions.size() / 3); }
  void add(const Vec3& at, double length, const Vec3& direction) {
    for (std::size_t k = 0; k < 3; ++k) positions.push_back(at[k] + length * direction[k]);
  }
};

void add_point(Solids& solids, const Vec3& at, double radius) {
  constexpr double kR = 0.57735026918962576;  // 1 / √3
  constexpr std::array<Vec3, 4> kDirections = {
      {{kR, kR, kR}, {kR, -kR, -kR}, {-kR, kR, -kR}, {-kR, -kR, kR}}};
  constexpr std::array<Corners, 4> kFaces = {{{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 3, 2}}};
  const std::uint32_t first = solids.count();
  for (const Vec3& direction : kDirections) solids.add(at, radius, direction);
  for (const auto& [a, b, c] : kFaces)
    solids.triangles.push_back({first + a, first + b, first + c});
}

void add_line(Solids& solids, const Vec3& from, const Vec3& to, double radius) {
  const Vec3 along = {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
  // Two directions across: the axis that the line is least along, made orthogonal.
  std::size_t least = 0;
  for (std::size_t k = 1; k < 3; ++k)
    if (std::abs(along[k]) < std::abs(along[least])) least = k;
  Vec3 axis = {};
  axis[least] = 1;
  const auto cross = [](const Vec3& a, const Vec3& b) -> Vec3 {
    return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  const auto unit = [](Vec3 a) {
    const double length = std::hypot(a[0], a[1], a[2]);
    for (double& x : a) x = length > 0 ? x / length : 0;
    return a;
  };
  const Vec3 u = unit(cross(along, axis)), v = unit(cross(along, u));
  const std::uint32_t first = solids.count();
  constexpr double kCos = -0.5, kSin = 0.86602540378443865;  // a third of a turn
  for (const Vec3& end : {from, to}) {
    solids.add(end, radius, u);
    for (const double side : {kSin, -kSin})
      solids.add(end, radius,
                 {kCos * u[0] + side * v[0], kCos * u[1] + side * v[1], kCos * u[2] + side * v[2]});
  }
  for (std::uint32_t k = 0; k < 3; ++k) {
    const std::uint32_t a = first + k, b = first + (k + 1) % 3;
    solids.triangles.push_back({a, b, a + 3});
    solids.triangles.push_back({b, b + 3, a + 3});
  }
}

}  // namespace

Mesh make_marks(std::span<const double> positions,
                std::span<const std::array<std::uint32_t, 2>> lines, double radius) {
  const auto point = [&](std::size_t k) -> Vec3 {
    return {positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]};
  };
  Solids solids;
  for (std::size_t k = 0; k < positions.size() / 3; ++k) add_point(solids, point(k), radius);
  for (const auto& [a, b] : lines) add_line(solids, point(a), point(b), radius / 2);
  return make_mesh(solids.positions, solids.triangles);
}

}  // namespace topograd::draw
