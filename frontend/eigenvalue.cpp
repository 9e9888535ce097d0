// The smallest eigenvalue of a symmetric matrix, with a derivative that is its eigenprojector.
#include "mat.hpp"

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
