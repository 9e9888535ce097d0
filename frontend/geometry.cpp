// Rotation, triangles and angles.
#include <topograd/frontend/geometry.hpp>

namespace topograd {

Vec3 rotate(const Vec3& axis_angle, const Vec3& v) {
  const Vec3& a = axis_angle;
  const Value t = squared_norm(a);
  const Bool near_zero = t < literal(0x1p-12);
  // Where the series serves, the closed form is evaluated at 1 and finite.
  const Value safe = select(near_zero, literal(1.0), t);
  const Value theta = sqrt(safe);
  const Value half = literal(0.5) * theta;
  const Value q = sin(half) / theta;
  const Value closed_sine = literal(2.0) * (q * cos(half));  // sin(theta) / theta
  const Value closed_cosine = literal(2.0) * square(q);      // (1 - cos(theta)) / theta^2
  // Taylor coefficients 1/(2k+1)! and 1/(2k+2)! with alternating signs, in powers of t = theta^2.
  const Value sine =
      literal(1.0) + t * (literal(-1.0 / 6) + t * (literal(1.0 / 120) + t * literal(-1.0 / 5040)));
  const Value cosine = literal(0.5) + t * (literal(-1.0 / 24) +
                                           t * (literal(1.0 / 720) + t * literal(-1.0 / 40320)));
  const Vec3 once = cross(a, v);
  const Vec3 twice = cross(a, once);
  return v + once * select(near_zero, sine, closed_sine) +
         twice * select(near_zero, cosine, closed_cosine);
}

Vec3 triangle_cross(const Vec3& a, const Vec3& b, const Vec3& c) { return cross(b - a, c - a); }

Vec3 triangle_normal(const Vec3& a, const Vec3& b, const Vec3& c) {
  return normalize(triangle_cross(a, b, c));
}

Value triangle_area(const Vec3& a, const Vec3& b, const Vec3& c) {
  return literal(0.5) * norm(triangle_cross(a, b, c));
}

Value angle(const Vec3& a, const Vec3& b) { return atan2(norm(cross(a, b)), dot(a, b)); }

Value interior_angle(const Vec3& corner, const Vec3& p, const Vec3& q) {
  return angle(p - corner, q - corner);
}

Value cotangent(const Vec3& corner, const Vec3& p, const Vec3& q) {
  const Vec3 u = p - corner;
  const Vec3 v = q - corner;
  return dot(u, v) / norm(cross(u, v));
}

}  // namespace topograd
