// Triangles and angles, written with the ops of the table.
#pragma once

#include <topograd/frontend/vec.hpp>

namespace topograd {

/// (b - a) x (c - a): normal to the triangle, counter-clockwise, of twice its area.
Vec3 triangle_cross(const Vec3& a, const Vec3& b, const Vec3& c);
/// Unit normal; the zero vector for a degenerate triangle.
Vec3 triangle_normal(const Vec3& a, const Vec3& b, const Vec3& c);
/// Area, 0 with derivative 0 for a degenerate triangle.
Value triangle_area(const Vec3& a, const Vec3& b, const Vec3& c);

/// Angle between two vectors in [0, pi] radians, as atan2(|a x b|, a . b); 0 if either is zero.
Value angle(const Vec3& a, const Vec3& b);
/// Angle at `corner` in the triangle with the other vertices p and q, in radians.
Value interior_angle(const Vec3& corner, const Vec3& p, const Vec3& q);
/// Cotangent of that angle; infinite or NaN for a degenerate triangle.
Value cotangent(const Vec3& corner, const Vec3& p, const Vec3& q);

}  // namespace topograd
