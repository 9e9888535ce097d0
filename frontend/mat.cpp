// Inverses, rotations, and the smallest eigenvalue of a symmetric matrix with its derivative.
#include "mat.hpp"

#include <ostream>

#include "quat.hpp"

namespace topograd {
namespace {

/// The unit of rounding, 2 ulp(1), of the precision in which the expression is evaluated. `one` is
/// 1 at run time, but unknown to compilers. The difference and the product are exact, also in a
/// fused operation.
/// Source: Forsythe, Malcolm, Moler, Computer Methods for Mathematical Computations, 1977, 2.2.
Value unit_of_rounding(const Value& one) {
  return abs((one * literal(4.0 / 3) - one) * literal(3.0) - one);
}

Mat3 select_matrix(const Bool& condition, const Mat3& a, const Mat3& b) {
  return detail::fill<3>([&](int i, int j) { return select(condition, a(i, j), b(i, j)); });
}

/// A symmetric matrix as s B + q I, where B has trace 0 and norm sqrt(6); s = `spread`.
struct Deviator {
  Mat3 b;
  Value spread;
};

Deviator deviator(const Mat3& a) {
  const Value mean = trace(a) * literal(1.0 / 3);
  const Mat3 centred = a - diagonal(Vec3{mean, mean, mean});
  const Value spread = norm(centred) * literal(0.40824829046386301637);  // sqrt(1/6)
  return {centred / select(spread == literal(0.0), literal(1.0), spread), spread};
}

/// The projector v vᵀ to the eigenvector of B for the eigenvalue mu, which is far from the others:
/// the cofactors of B - mu I divided by their trace.
Mat3 isolated_projector(const Mat3& b, const Value& mu) {
  const Mat3 m = b - diagonal(Vec3{mu, mu, mu});
  const Vec3 u = row(m, 0), v = row(m, 1), w = row(m, 2);
  const Mat3 cofactors = from_columns(cross(v, w), cross(w, u), cross(u, v));
  return cofactors / trace(cofactors);
}

/// The projector to one vector in the plane of `plane`: the image of the longest column of `p`. For
/// a p with rounding errors, the result has trace 1 and lies in the plane.
Mat3 within_plane(const Mat3& plane, const Mat3& p) {
  const Bool first = p(0, 0) >= p(1, 1) && p(0, 0) >= p(2, 2);
  const Bool second = p(1, 1) >= p(2, 2);
  const Vec3 longest = select(first, column(p, 0), select(second, column(p, 1), column(p, 2)));
  const Vec3 v = plane * longest;
  return outer(v, v) / squared_norm(v);
}

/// The projector to the eigenspace of the smallest eigenvalue of A, divided by its dimension. A is
/// symmetric with entries of magnitude at most 1; `one` is 1.
Mat3 smallest_projector(const Mat3& a, const Value& one) {
  const Value tolerance = literal(64.0) * unit_of_rounding(one);
  const Deviator d = deviator(a);
  // The isolated eigenvalue of B is its largest where det B >= 0, else its smallest.
  const Value half = literal(0.5) * determinant(d.b);
  const Bool largest = half >= literal(0.0);
  const Mat3 b = select_matrix(largest, d.b, -d.b);
  const Value mu = literal(2.0) * cos(acos(min(abs(half), literal(1.0))) * literal(1.0 / 3));
  const Mat3 isolated = isolated_projector(b, mu);
  // In the plane of the other two, B is -mu/2 plus a part with eigenvalues r and -r.
  const Mat3 plane = Mat3::identity() - isolated;
  const Mat3 rest = b - isolated * mu + plane * (literal(0.5) * mu);
  const Value r = norm(rest) * literal(0.70710678118654752440);
  const Mat3 mean = plane * literal(0.5);
  const Bool equal = literal(2.0) * r * d.spread <= tolerance;
  const Value divisor = literal(2.0) * select(equal, literal(1.0), r);
  const Mat3 simple = within_plane(plane, mean - rest / divisor);
  const Mat3 distinct = select_matrix(largest, select_matrix(equal, mean, simple), isolated);
  const Value third = literal(1.0 / 3), zero = literal(0.0);
  return select_matrix(d.spread <= tolerance, diagonal(Vec3{third, third, third}), distinct);
}

/// x as a constant for derivatives, with an error below 2^-61: round has derivative 0. Entries of a
/// projector are multiples of 2^-60 up to their own rounding error.
Value constant(const Value& x) { return round(x * literal(0x1p60)) * literal(0x1p-60); }
Mat3 constant(const Mat3& m) {
  return detail::fill<3>([&](int i, int j) { return constant(m(i, j)); });
}

/// The vector v of a projector v vᵀ: its longest column divided by that column's length.
Vec3 vector_of(const Mat3& p) {
  const Bool first = p(0, 0) >= p(1, 1) && p(0, 0) >= p(2, 2);
  const Bool second = p(1, 1) >= p(2, 2);
  const auto pick = [&](const Value& a, const Value& b, const Value& c) {
    return select(first, a, select(second, b, c));
  };
  const Value length = sqrt(pick(p(0, 0), p(1, 1), p(2, 2)));
  return Vec3{pick(p(0, 0), p(0, 1), p(0, 2)), pick(p(0, 1), p(1, 1), p(1, 2)),
              pick(p(0, 2), p(1, 2), p(2, 2))} /
         length;
}

/// The second-order loss of the eigenvalue of A / scale = B with projector P when A moves: wᵀ (B −
/// λ)⁺ w / scale, w = A v − λ scale v, with everything but A held constant. Its value and first
/// derivative are 0; its second derivative is the eigenvalue's second derivative that comes from
/// the rotation of v. 0 where the eigenvalue is repeated, because v is undefined. Source: Magnus
/// (1985), theorem 1.
Value loss_by_turning(const Mat3& a, const Mat3& b, const Mat3& p, const Value& scale) {
  const Value lambda = dot(p, b), zero = literal(0.0);
  // The pseudo-inverse: P has the eigenvalue 1 in both matrices.
  const Mat3 shifted = b - diagonal(Vec3{lambda, lambda, lambda}) + p;
  // A power of two near the scale is constant in derivatives at any magnitude.
  const Value unit = exp2(floor(log2(scale)));
  const Mat3 inverse_part = constant((inverse(shifted) - p) * (unit / scale));
  const Bool simple = dot(p, p) > literal(0.75);  // 1/2 or 1/3 for a repeated eigenvalue
  const Vec3 v = vector_of(constant(p));
  // 0 up to rounding, so that errors of the pseudo-inverse have no effect.
  const Vec3 moved = (a * v) / unit - v * constant(lambda * (scale / unit));
  return select(simple, unit * dot(moved, inverse_part * moved), zero);
}

}  // namespace

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

Value smallest_eigenvalue(const Mat3& a) {
  const Mat3 symmetric = (a + transpose(a)) * literal(0.5);
  Value largest = abs(symmetric(0, 0));
  for (int i = 0; i < 3; ++i)
    for (int j = i == 0 ? 1 : i; j < 3; ++j) largest = max(largest, abs(symmetric(i, j)));
  const Value scale = select(largest == literal(0.0), literal(1.0), largest);
  const Mat3 scaled = symmetric / scale;
  const Mat3 p = smallest_projector(scaled, sign(scale));
  // The derivative of P : A is P only while P is held constant.
  return dot(constant(p), symmetric) - loss_by_turning(symmetric, scaled, p, scale);
}

}  // namespace topograd
