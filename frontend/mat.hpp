// Mat2 and Mat3: square matrices of Values with the operations of matrix algebra.
#pragma once

#include "vec.hpp"

#include <array>
#include <cstddef>
#include <ostream>

namespace topograd {

/// A square matrix of Values, row by row.
template <int N>
struct Mat {
  static constexpr int kSize = N;
  std::array<Value, N * N> entries;

  /// Row i, column j; both from 0 to N - 1.
  const Value& operator()(int i, int j) const { return entries[index(i, j)]; }
  Value& operator()(int i, int j) { return entries[index(i, j)]; }

  /// Ones and zeros are literals.
  static Mat identity() {
    Mat m;
    for (int k = 0; k < N * N; ++k) m.entries[k] = literal(k % (N + 1) == 0 ? 1.0 : 0.0);
    return m;
  }

 private:
  static std::size_t index(int i, int j) { return static_cast<std::size_t>(i * N + j); }
};
using Mat2 = Mat<2>;
using Mat3 = Mat<3>;

/// Prints the formulas of the entries, one row per line.
std::ostream& operator<<(std::ostream& out, const Mat2& m);
std::ostream& operator<<(std::ostream& out, const Mat3& m);

namespace detail {

template <int N>
struct VecOfSize;
template <>
struct VecOfSize<2> {
  using type = Vec2;
};
template <>
struct VecOfSize<3> {
  using type = Vec3;
};

/// The vector of f(0), f(1), ...
template <int N, class F>
typename VecOfSize<N>::type generate(F f) {
  if constexpr (N == 2) return {f(0), f(1)};
  if constexpr (N == 3) return {f(0), f(1), f(2)};
}

/// The matrix of f(i, j).
template <int N, class F>
Mat<N> fill(F f) {
  Mat<N> m;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) m(i, j) = f(i, j);
  return m;
}

}  // namespace detail

template <int N>
using VecN = typename detail::VecOfSize<N>::type;

inline Mat2 from_rows(const Vec2& a, const Vec2& b) { return {{a.x, a.y, b.x, b.y}}; }
inline Mat3 from_rows(const Vec3& a, const Vec3& b, const Vec3& c) {
  return {{a.x, a.y, a.z, b.x, b.y, b.z, c.x, c.y, c.z}};
}
inline Mat2 from_columns(const Vec2& a, const Vec2& b) { return {{a.x, b.x, a.y, b.y}}; }
inline Mat3 from_columns(const Vec3& a, const Vec3& b, const Vec3& c) {
  return {{a.x, b.x, c.x, a.y, b.y, c.y, a.z, b.z, c.z}};
}
template <int N>
VecN<N> row(const Mat<N>& a, int i) {
  return detail::generate<N>([&](int j) { return a(i, j); });
}
template <int N>
VecN<N> column(const Mat<N>& a, int j) {
  return detail::generate<N>([&](int i) { return a(i, j); });
}
/// The matrix with `d` on its diagonal and the literal 0 elsewhere.
inline Mat2 diagonal(const Vec2& d) {
  return detail::fill<2>([&](int i, int j) { return i == j ? d[i] : literal(0.0); });
}
inline Mat3 diagonal(const Vec3& d) {
  return detail::fill<3>([&](int i, int j) { return i == j ? d[i] : literal(0.0); });
}

template <int N>
Mat<N> operator+(const Mat<N>& a, const Mat<N>& b) {
  return detail::fill<N>([&](int i, int j) { return a(i, j) + b(i, j); });
}
template <int N>
Mat<N> operator-(const Mat<N>& a, const Mat<N>& b) {
  return detail::fill<N>([&](int i, int j) { return a(i, j) - b(i, j); });
}
template <int N>
Mat<N> operator-(const Mat<N>& a) {
  return detail::fill<N>([&](int i, int j) { return -a(i, j); });
}
template <int N>
Mat<N> operator*(const Mat<N>& a, const Value& s) {
  return detail::fill<N>([&](int i, int j) { return a(i, j) * s; });
}
template <int N>
Mat<N> operator*(const Value& s, const Mat<N>& a) {
  return detail::fill<N>([&](int i, int j) { return s * a(i, j); });
}
template <int N>
Mat<N> operator/(const Mat<N>& a, const Value& s) {
  return detail::fill<N>([&](int i, int j) { return a(i, j) / s; });
}
template <int N>
VecN<N> operator*(const Mat<N>& a, const VecN<N>& v) {
  return detail::generate<N>([&](int i) { return dot(row(a, i), v); });
}
template <int N>
Mat<N> operator*(const Mat<N>& a, const Mat<N>& b) {
  return detail::fill<N>([&](int i, int j) { return dot(row(a, i), column(b, j)); });
}
template <int N>
Mat<N>& operator+=(Mat<N>& a, const Mat<N>& b) {
  return a = a + b;
}
template <int N>
Mat<N>& operator-=(Mat<N>& a, const Mat<N>& b) {
  return a = a - b;
}
template <int N>
Mat<N>& operator*=(Mat<N>& a, const Value& s) {
  return a = a * s;
}
template <int N>
Mat<N>& operator/=(Mat<N>& a, const Value& s) {
  return a = a / s;
}

template <int N>
Mat<N> transpose(const Mat<N>& a) {
  return detail::fill<N>([&](int i, int j) { return a(j, i); });
}
/// a bᵀ.
inline Mat2 outer(const Vec2& a, const Vec2& b) {
  return detail::fill<2>([&](int i, int j) { return a[i] * b[j]; });
}
inline Mat3 outer(const Vec3& a, const Vec3& b) {
  return detail::fill<3>([&](int i, int j) { return a[i] * b[j]; });
}
inline Value trace(const Mat2& a) { return a(0, 0) + a(1, 1); }
inline Value trace(const Mat3& a) { return a(0, 0) + a(1, 1) + a(2, 2); }
inline Value determinant(const Mat2& a) { return cross(row(a, 0), row(a, 1)); }
inline Value determinant(const Mat3& a) { return dot(row(a, 0), cross(row(a, 1), row(a, 2))); }
/// dot() is the sum of the products of corresponding entries; norm() is √dot(a, a), with derivative
/// 0 at the zero matrix.
template <int N>
Value dot(const Mat<N>& a, const Mat<N>& b) {
  Value sum = a.entries[0] * b.entries[0];
  for (int k = 1; k < N * N; ++k) sum += a.entries[k] * b.entries[k];
  return sum;
}
template <int N>
Value norm(const Mat<N>& a) {
  Value sum = square(a.entries[0]);
  for (int k = 1; k < N * N; ++k) sum += square(a.entries[k]);
  const Value zero = literal(0.0);
  return select(sum == zero, zero, sqrt(sum));
}
/// The transpose of the cofactors over the determinant: infinite or NaN for a singular matrix.
Mat2 inverse(const Mat2& a);
Mat3 inverse(const Mat3& a);

/// The matrix of v -> a x v.
Mat3 cross_matrix(const Vec3& a);

/// Rotates v about the direction of `axis_angle` by its length in radians.
///
/// Rodrigues' formula; below |axis_angle|^2 = 2^-12 its Taylor series to fourth order in the
/// square, which is exact to double precision there and differentiable at 0.
Vec3 rotate(const Vec3& axis_angle, const Vec3& v);
/// The matrix of rotate(axis_angle, ·).
Mat3 rotation_matrix(const Vec3& axis_angle);

/// Rotates v by the quaternion with real part q.w and imaginary part (q.x, q.y, q.z), as
/// from_xyzw(q) reads it. A Vec4 has no fixed order of a quaternion's numbers: use Quat (quat.hpp).
[[deprecated(
    "a Vec4 has no order of storage: use x.quat(i) for (w, x, y, z), x.eigen_quat(i) or "
    "from_xyzw(v) for (x, y, z, w)")]] Vec3
rotate(const Vec4& q, const Vec3& v);
[[deprecated(
    "a Vec4 has no order of storage: use x.quat(i) for (w, x, y, z), x.eigen_quat(i) or "
    "from_xyzw(v) for (x, y, z, w)")]] Mat3
rotation_matrix(const Vec4& q);

/// The smallest eigenvalue of (A + Aᵀ) / 2.
///
/// The first derivative is exact: v vᵀ for a simple eigenvalue with unit eigenvector v; for a
/// repeated one the mean over the eigenspace, P / dim with its projector P, which does not depend
/// on rounding. Eigenvalues count as equal if they differ by at most 64 units of rounding of the
/// kernel's precision (64 x 2^-52 or 64 x 2^-23) times the largest magnitude of an entry; the value
/// is then their mean. The second derivative is exact for a simple eigenvalue and 0 for a repeated
/// one. Third derivatives are not those of the eigenvalue. NaN and infinite entries give NaN.
///
/// Cost: about 450 operations, value and all nine derivatives.
/// Source: Smith, Eigenvalues of a symmetric 3 x 3 matrix, CACM 4 (1961); Eberly, A robust
/// eigensolver for 3 x 3 symmetric matrices, 2014; Magnus, On differentiating eigenvalues and
/// eigenvectors, Econometric Theory 1 (1985).
Value smallest_eigenvalue(const Mat3& a);

}  // namespace topograd
