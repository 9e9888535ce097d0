// Inverses and rotations.
#include "quat.hpp"

#include <ostream>

namespace topograd {

Value angle(const Vec4& a, const Vec4& b) {
  const Vec4 u = normalize(a), v = normalize(b);
  const Value zero = literal(0.0);
  const Value full = literal(2.0) * atan2(norm(u - v), norm(u + v));
  return select(squared_norm(a) == zero || squared_norm(b) == zero, zero, full);
}

Mat2 inverse(const Mat2& a) {
  const Value scale = reciprocal(determinant(a));
  return Mat2{{a(1, 1), -a(0, 1), -a(1, 0), a(0, 0)}} * scale;
}

Mat3 inverse(const Mat3& a) {
  const Vec3 u = row(a, 0), v = row(a, 1), w = row(a, 2);
  const Vec3 vw = cross(v, w);
  return from_columns(vw, cross(w, u), cross(u, v)) * reciprocal(dot(u, vw));
}

Mat3 cross_matrix(const Vec3& a) {
  const Value zero = literal(0.0);
  return {{zero, -a.z, a.y, a.z, zero, -a.x, -a.y, a.x, zero}};
}

namespace {

/// sin(theta) / theta and (1 - cos(theta)) / theta^2 as functions of theta^2 = t.
struct Rodrigues {
  Value sine, cosine;
};

Rodrigues rodrigues(const Value& t) {
  const Bool near_zero = t < literal(0x1p-12);
  // If the series is used, the closed form is evaluated at 1 and is finite.
  const Value safe = select(near_zero, literal(1.0), t);
  const Value theta = sqrt(safe);
  const Value half = literal(0.5) * theta;
  const Value q = sin(half) / theta;
  const Value closed_sine = literal(2.0) * (q * cos(half));
  const Value closed_cosine = literal(2.0) * square(q);
  // Taylor coefficients 1/(2k+1)! and 1/(2k+2)! with alternating signs, in powers of t.
  const Value sine =
      literal(1.0) + t * (literal(-1.0 / 6) + t * (literal(1.0 / 120) + t * literal(-1.0 / 5040)));
  const Value cosine = literal(0.5) + t * (literal(-1.0 / 24) +
                                           t * (literal(1.0 / 720) + t * literal(-1.0 / 40320)));
  return {select(near_zero, sine, closed_sine), select(near_zero, cosine, closed_cosine)};
}

/// 2 / |q|^2, and 0 for a zero quaternion.
Value doubled_inverse_square(const Quat& q) {
  const Value s = squared_norm(to_xyzw(q));
  const Value zero = literal(0.0);
  return select(s == zero, zero, literal(2.0) / s);
}

}  // namespace

Vec3 rotate(const Vec3& axis_angle, const Vec3& v) {
  const Rodrigues f = rodrigues(squared_norm(axis_angle));
  const Vec3 once = cross(axis_angle, v);
  return v + once * f.sine + cross(axis_angle, once) * f.cosine;
}

Mat3 rotation_matrix(const Vec3& axis_angle) {
  const Rodrigues f = rodrigues(squared_norm(axis_angle));
  const Mat3 k = cross_matrix(axis_angle);
  return Mat3::identity() + k * f.sine + (k * k) * f.cosine;
}

Vec3 rotate(const Quat& q, const Vec3& v) {
  const Vec3 axis{q.x, q.y, q.z};
  const Vec3 once = cross(axis, v);
  return v + (once * q.w + cross(axis, once)) * doubled_inverse_square(q);
}

Mat3 rotation_matrix(const Quat& q) {
  const Mat3 k = cross_matrix({q.x, q.y, q.z});
  return Mat3::identity() + (k * q.w + k * k) * doubled_inverse_square(q);
}

Quat from_axis_angle(const Vec3& axis_angle) {
  // With φ = θ/2: cos φ = 1 − φ² (1 − cos φ)/φ², and sin φ times the axis = half sin φ/φ.
  const Vec3 half = axis_angle * literal(0.5);
  const Value t = squared_norm(half);
  const Rodrigues f = rodrigues(t);
  return {literal(1.0) - t * f.cosine, half.x * f.sine, half.y * f.sine, half.z * f.sine};
}

Vec3 to_axis_angle(const Quat& q) {
  const Value zero = literal(0.0), one = literal(1.0);
  const Value sign = select(q.w < zero, -one, one);  // the shorter rotation
  const Value w = sign * q.w;
  const Vec3 v{q.x, q.y, q.z};
  const Value square = squared_norm(v);
  const Bool at_rest = square == zero;
  const Value sine = sqrt(select(at_rest, one, square));
  return v * (literal(2.0) * sign * select(at_rest, reciprocal(w), atan2(sine, w) / sine));
}

std::ostream& operator<<(std::ostream& out, const Quat& q) {
  return out << "(w: " << q.w << ", x: " << q.x << ", y: " << q.y << ", z: " << q.z << ')';
}

Vec3 rotate(const Vec4& q, const Vec3& v) { return rotate(from_xyzw(q), v); }
Mat3 rotation_matrix(const Vec4& q) { return rotation_matrix(from_xyzw(q)); }

}  // namespace topograd
