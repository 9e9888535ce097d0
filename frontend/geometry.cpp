// Triangles, vertex stars and distances.
#include "geometry.hpp"
#include "../ir/error.hpp"
#include "value/reduce.hpp"

#include <numbers>
#include <string>
#include <vector>

namespace topograd {

Vec3 triangle_cross(const Vec3& a, const Vec3& b, const Vec3& c) { return cross(b - a, c - a); }

Vec3 triangle_normal(const Vec3& a, const Vec3& b, const Vec3& c) {
  return normalize(triangle_cross(a, b, c));
}

Value triangle_area(const Vec3& a, const Vec3& b, const Vec3& c) {
  return literal(0.5) * norm(triangle_cross(a, b, c));
}

Value interior_angle(const Vec3& corner, const Vec3& p, const Vec3& q) {
  return angle(p - corner, q - corner);
}

Value cotangent(const Vec3& corner, const Vec3& p, const Vec3& q) {
  const Vec3 u = p - corner;
  const Vec3 v = q - corner;
  return dot(u, v) / norm(cross(u, v));
}

Value dihedral_angle(const Vec3& a, const Vec3& b, const Vec3& c, const Vec3& d) {
  const Vec3 edge = b - a;
  const Vec3 m = cross(edge, c - a), n = cross(d - a, edge);
  return atan2(dot(normalize(edge), cross(m, n)), dot(m, n));
}

namespace {

/// f(p, q) for each pair of consecutive neighbours.
template <class F>
void for_each_pair(const char* call, std::span<const Vec3> neighbours, Ring ring, F f) {
  const std::size_t least = ring == Ring::Closed ? 3 : 2, n = neighbours.size();
  if (n < least)
    throw Error(ErrorCode::Shape, std::string(call) + ": expected at least " +
                                      std::to_string(least) + " neighbours, got " +
                                      std::to_string(n));
  for (std::size_t k = 0; k + 1 < n; ++k) f(neighbours[k], neighbours[k + 1]);
  if (ring == Ring::Closed) f(neighbours[n - 1], neighbours[0]);
}

}  // namespace

Value angle_defect(const Vec3& center, std::span<const Vec3> neighbours, Ring ring) {
  std::vector<Value> angles;
  for_each_pair("angle_defect", neighbours, ring, [&](const Vec3& p, const Vec3& q) {
    angles.push_back(interior_angle(center, p, q));
  });
  return literal((ring == Ring::Closed ? 2 : 1) * std::numbers::pi) - sum(angles);
}

Vec3 vertex_normal(const Vec3& center, std::span<const Vec3> neighbours, Ring ring) {
  std::vector<Value> x, y, z;
  for_each_pair("vertex_normal", neighbours, ring, [&](const Vec3& p, const Vec3& q) {
    const Vec3 normal = triangle_cross(center, p, q);
    x.push_back(normal.x);
    y.push_back(normal.y);
    z.push_back(normal.z);
  });
  return normalize(Vec3{sum(x), sum(y), sum(z)});
}

Value point_plane_distance(const Vec3& p, const Vec3& on_plane, const Vec3& normal) {
  return dot(p - on_plane, normalize(normal));
}

Value point_line_distance(const Vec3& p, const Vec3& a, const Vec3& b) {
  return norm(reject(p - a, b - a));
}
Value point_line_distance(const Vec2& p, const Vec2& a, const Vec2& b) {
  return norm(reject(p - a, b - a));
}

}  // namespace topograd
