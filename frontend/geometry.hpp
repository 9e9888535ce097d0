// Triangles, angles and distances of Vecs.
#pragma once

#include "mat.hpp"

#include <span>

namespace topograd {

// Angles are in radians. Unless stated otherwise, a degenerate input gives a finite value, and the
// derivative 0 where the true one does not exist.

/// (b - a) x (c - a): normal to the triangle, counter-clockwise, of twice its area.
Vec3 triangle_cross(const Vec3& a, const Vec3& b, const Vec3& c);
/// Unit normal; the zero vector for a degenerate triangle.
Vec3 triangle_normal(const Vec3& a, const Vec3& b, const Vec3& c);
/// Area, 0 with derivative 0 for a degenerate triangle.
Value triangle_area(const Vec3& a, const Vec3& b, const Vec3& c);

/// Angle at `corner` in the triangle with the other vertices p and q; 0 where an edge has no
/// length. Its derivative at 0 and pi is 0.
Value interior_angle(const Vec3& corner, const Vec3& p, const Vec3& q);
/// Cotangent of interior_angle(); infinite or NaN for a degenerate triangle.
Value cotangent(const Vec3& corner, const Vec3& p, const Vec3& q);

/// Angle in (-pi, pi] between the normals of the triangles (a, b, c) and (b, a, d) that share the
/// edge a b: 0 where they are flat, positive where the edge is a ridge seen from the side that the
/// normals point to. 0 where a triangle is degenerate.
Value dihedral_angle(const Vec3& a, const Vec3& b, const Vec3& c, const Vec3& d);

/// Closed: the neighbours surround a vertex. Open: they run from one boundary edge to the other.
enum class Ring { Closed, Open };

/// 2 pi (pi for an open ring) less the interior angles at `center` between consecutive neighbours.
/// Throws Error{Shape} for fewer than 3 neighbours (2 for an open ring).
Value angle_defect(const Vec3& center, std::span<const Vec3> neighbours, Ring ring = Ring::Closed);
/// Unit normal at a vertex: the mean of its triangles' normals weighted by their areas; the zero
/// vector where that is zero. Neighbours are counter-clockwise; errors as angle_defect.
Vec3 vertex_normal(const Vec3& center, std::span<const Vec3> neighbours, Ring ring = Ring::Closed);

/// Signed distance of p from the plane through `on_plane` with `normal` of any length; positive on
/// the side that the normal points to; 0 where the normal is zero.
Value point_plane_distance(const Vec3& p, const Vec3& on_plane, const Vec3& normal);
/// Distance of p from the line through a and b, from a where they coincide; derivative 0 on the
/// line.
Value point_line_distance(const Vec3& p, const Vec3& a, const Vec3& b);
Value point_line_distance(const Vec2& p, const Vec2& a, const Vec2& b);

}  // namespace topograd
