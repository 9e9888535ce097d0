// 3x3 rotation matrices in any memory order, and conversions to quaternions and Euler angles.
#pragma once

#include "value_functions.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace ceres {

/// A matrix over memory: element (r, c) is at r * row_stride + c * col_stride.
template <typename T, int row_stride, int col_stride>
struct MatrixAdapter {
  explicit MatrixAdapter(T* pointer) : pointer_(pointer) {}
  T& operator()(int r, int c) const { return pointer_[r * row_stride + c * col_stride]; }

  T* pointer_;
};

template <typename T>
MatrixAdapter<T, 1, 3> ColumnMajorAdapter3x3(T* pointer) {
  return MatrixAdapter<T, 1, 3>(pointer);
}
template <typename T>
MatrixAdapter<T, 3, 1> RowMajorAdapter3x3(T* pointer) {
  return MatrixAdapter<T, 3, 1>(pointer);
}

namespace internal {

/// The quaternion of a matrix whose component i + 1, the divisor, is the largest.
template <typename T, class Matrix>
std::array<T, 4> QuaternionByDiagonal(const Matrix& R, int i) {
  using std::sqrt;
  const int j = (i + 1) % 3, k = (j + 1) % 3;
  T t = sqrt(R(i, i) - R(j, j) - R(k, k) + Constant<T>(1));
  std::array<T, 4> q;
  const auto component = [&](int n) -> T& { return q[static_cast<std::size_t>(n)]; };
  component(i + 1) = Constant<T>(0.5) * t;
  t = Constant<T>(0.5) / t;
  component(0) = (R(k, j) - R(j, k)) * t;
  component(j + 1) = (R(j, i) + R(i, j)) * t;
  component(k + 1) = (R(k, i) + R(i, k)) * t;
  return q;
}

/// The same where w is large.
template <typename T, class Matrix>
std::array<T, 4> QuaternionByTrace(const Matrix& R, const T& trace) {
  using std::sqrt;
  const T root = sqrt(trace + Constant<T>(1));
  const T t = Constant<T>(0.5) / root;
  return {Constant<T>(0.5) * root, (R(2, 1) - R(1, 2)) * t, (R(0, 2) - R(2, 0)) * t,
          (R(1, 0) - R(0, 1)) * t};
}

}  // namespace internal

/// The unit quaternion of a rotation matrix, computed by the largest of its components.
/// Source: K. Shoemake, Quaternion Calculus and Fast Animation, SIGGRAPH course notes, 1987.
template <typename T, int row_stride, int col_stride>
void RotationMatrixToQuaternion(const MatrixAdapter<const T, row_stride, col_stride>& R,
                                T* quaternion) {
  const auto by_diagonal = [&](int i) {
    return [&R, i] { return internal::QuaternionByDiagonal<T>(R, i); };
  };
  const T trace = R(0, 0) + R(1, 1) + R(2, 2);
  const std::array<T, 4> q = internal::Choose(
      trace >= internal::Constant<T>(0), [&] { return internal::QuaternionByTrace(R, trace); },
      [&] {
        return internal::Choose(
            R(1, 1) > R(0, 0),
            [&] { return internal::Choose(R(2, 2) > R(1, 1), by_diagonal(2), by_diagonal(1)); },
            [&] { return internal::Choose(R(2, 2) > R(0, 0), by_diagonal(2), by_diagonal(0)); });
      });
  for (std::size_t k = 0; k < 4; ++k) quaternion[k] = q[k];
}
/// R is column-major.
template <typename T>
void RotationMatrixToQuaternion(const T* R, T* quaternion) {
  RotationMatrixToQuaternion(ColumnMajorAdapter3x3(R), quaternion);
}

/// Rz(yaw) Ry(roll) Rx(pitch) for euler = (pitch, roll, yaw) in degrees.
template <typename T, int row_stride, int col_stride>
void EulerAnglesToRotationMatrix(const T* euler,
                                 const MatrixAdapter<T, row_stride, col_stride>& R) {
  using std::cos;
  using std::sin;
  const T radians = internal::Constant<T>(std::numbers::pi / 180);
  const T pitch = euler[0] * radians, roll = euler[1] * radians, yaw = euler[2] * radians;
  const T cx = cos(pitch), sx = sin(pitch);
  const T cy = cos(roll), sy = sin(roll);
  const T cz = cos(yaw), sz = sin(yaw);
  R(0, 0) = cz * cy;
  R(0, 1) = cz * sy * sx - sz * cx;
  R(0, 2) = cz * sy * cx + sz * sx;
  R(1, 0) = sz * cy;
  R(1, 1) = sz * sy * sx + cz * cx;
  R(1, 2) = sz * sy * cx - cz * sx;
  R(2, 0) = -sy;
  R(2, 1) = cy * sx;
  R(2, 2) = cy * cx;
}
/// R is row-major; the stride of its rows is always 3 and `row_stride` is ignored, as in Ceres.
template <typename T>
void EulerAnglesToRotationMatrix(const T* euler, int /*row_stride*/, T* R) {
  EulerAnglesToRotationMatrix(euler, RowMajorAdapter3x3(R));
}

/// |q|² times the rotation matrix of q.
template <typename T, int row_stride, int col_stride>
void QuaternionToScaledRotation(const T q[4], const MatrixAdapter<T, row_stride, col_stride>& R) {
  const T two = internal::Constant<T>(2);
  const T ww = q[0] * q[0], wx = q[0] * q[1], wy = q[0] * q[2], wz = q[0] * q[3];
  const T xx = q[1] * q[1], xy = q[1] * q[2], xz = q[1] * q[3];
  const T yy = q[2] * q[2], yz = q[2] * q[3], zz = q[3] * q[3];
  R(0, 0) = ww + xx - yy - zz;
  R(0, 1) = two * (xy - wz);
  R(0, 2) = two * (wy + xz);
  R(1, 0) = two * (wz + xy);
  R(1, 1) = ww - xx + yy - zz;
  R(1, 2) = two * (yz - wx);
  R(2, 0) = two * (xz - wy);
  R(2, 1) = two * (wx + yz);
  R(2, 2) = ww - xx - yy + zz;
}
/// R is row-major.
template <typename T>
void QuaternionToScaledRotation(const T q[4], T R[9]) {
  QuaternionToScaledRotation(q, RowMajorAdapter3x3(R));
}

/// The rotation matrix of a quaternion of any length but 0.
template <typename T, int row_stride, int col_stride>
void QuaternionToRotation(const T q[4], const MatrixAdapter<T, row_stride, col_stride>& R) {
  QuaternionToScaledRotation(q, R);
  const T scale =
      internal::Constant<T>(1) / (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column) R(row, column) *= scale;
}
/// R is row-major.
template <typename T>
void QuaternionToRotation(const T q[4], T R[9]) {
  QuaternionToRotation(q, RowMajorAdapter3x3(R));
}

}  // namespace ceres
