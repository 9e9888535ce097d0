// Rotations on any scalar: axis-angle vectors, quaternions (w, x, y, z) and 3x3 matrices.
#pragma once

#include "rotation_matrix.hpp"
#include "value_functions.hpp"

#include <array>
#include <cmath>

namespace ceres {

// Every function accepts double, Jet and topograd::Value, and is smooth at the zero rotation, where
// it uses its first-order expansion. Inputs and outputs may share memory only where stated.

/// The vector product; not in place.
template <typename T>
void CrossProduct(const T x[3], const T y[3], T x_cross_y[3]) {
  x_cross_y[0] = x[1] * y[2] - x[2] * y[1];
  x_cross_y[1] = x[2] * y[0] - x[0] * y[2];
  x_cross_y[2] = x[0] * y[1] - x[1] * y[0];
}
template <typename T>
T DotProduct(const T x[3], const T y[3]) {
  return x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
}

/// Hamilton's product z w.
template <typename T>
void QuaternionProduct(const T z[4], const T w[4], T zw[4]) {
  zw[0] = z[0] * w[0] - z[1] * w[1] - z[2] * w[2] - z[3] * w[3];
  zw[1] = z[0] * w[1] + z[1] * w[0] + z[2] * w[3] - z[3] * w[2];
  zw[2] = z[0] * w[2] - z[1] * w[3] + z[2] * w[0] + z[3] * w[1];
  zw[3] = z[0] * w[3] + z[1] * w[2] - z[2] * w[1] + z[3] * w[0];
}

/// The unit quaternion of the rotation by |angle_axis| about its direction.
template <typename T>
void AngleAxisToQuaternion(const T* angle_axis, T* quaternion) {
  using std::cos;
  using std::sin;
  using std::sqrt;
  const T half = internal::Constant<T>(0.5);
  const T squared = DotProduct(angle_axis, angle_axis);
  const std::array<T, 2> parts = internal::Choose(
      squared > internal::Constant<T>(0),
      [&] {
        const T angle = sqrt(squared);
        const T half_angle = angle * half;
        return std::array<T, 2>{cos(half_angle), sin(half_angle) / angle};
      },
      [&] {
        return std::array<T, 2>{internal::Constant<T>(1), half};
      });
  const T scale = parts[1];
  quaternion[1] = angle_axis[0] * scale;
  quaternion[2] = angle_axis[1] * scale;
  quaternion[3] = angle_axis[2] * scale;
  quaternion[0] = parts[0];
}

/// The shorter of the two rotations of a unit quaternion: angle in [0, pi].
template <typename T>
void QuaternionToAngleAxis(const T* quaternion, T* angle_axis) {
  using std::atan2;
  using std::sqrt;
  const T two = internal::Constant<T>(2);
  const T squared = DotProduct(quaternion + 1, quaternion + 1);
  const std::array<T, 1> scale = internal::Choose(
      squared > internal::Constant<T>(0),
      [&] {
        const T sine = sqrt(squared);
        const T cosine = quaternion[0];
        const std::array<T, 1> half_angle = internal::Choose(
            cosine < internal::Constant<T>(0),
            [&] { return std::array<T, 1>{atan2(-sine, -cosine)}; },
            [&] { return std::array<T, 1>{atan2(sine, cosine)}; });
        return std::array<T, 1>{two * half_angle[0] / sine};
      },
      [&] { return std::array<T, 1>{two}; });
  for (int k = 0; k < 3; ++k) angle_axis[k] = quaternion[k + 1] * scale[0];
}

/// `result` = the point rotated by a unit quaternion; not in place.
template <typename T>
void UnitQuaternionRotatePoint(const T q[4], const T pt[3], T result[3]) {
  T twice[3], turned[3];
  CrossProduct(q + 1, pt, twice);
  for (T& coordinate : twice) coordinate += coordinate;
  CrossProduct(q + 1, twice, turned);
  for (int k = 0; k < 3; ++k) result[k] = pt[k] + q[0] * twice[k] + turned[k];
}

/// Like UnitQuaternionRotatePoint, for a quaternion of any length but 0.
template <typename T>
void QuaternionRotatePoint(const T q[4], const T pt[3], T result[3]) {
  using std::sqrt;
  const T scale = internal::Constant<T>(1) / sqrt(q[0] * q[0] + DotProduct(q + 1, q + 1));
  const T unit[4] = {scale * q[0], scale * q[1], scale * q[2], scale * q[3]};
  UnitQuaternionRotatePoint(unit, pt, result);
}

/// `result` = the point rotated by an axis-angle vector, by Rodrigues' formula; not in place.
template <typename T>
void AngleAxisRotatePoint(const T angle_axis[3], const T pt[3], T result[3]) {
  using std::cos;
  using std::sin;
  using std::sqrt;
  const T squared = DotProduct(angle_axis, angle_axis);
  const std::array<T, 3> turned = internal::Choose(
      squared > internal::Constant<T>(0),
      [&] {
        const T angle = sqrt(squared);
        const T cosine = cos(angle), sine = sin(angle);
        const T inverse = internal::Constant<T>(1) / angle;
        const T axis[3] = {angle_axis[0] * inverse, angle_axis[1] * inverse,
                           angle_axis[2] * inverse};
        T side[3];
        CrossProduct(axis, pt, side);
        const T along = DotProduct(axis, pt) * (internal::Constant<T>(1) - cosine);
        return std::array<T, 3>{pt[0] * cosine + side[0] * sine + axis[0] * along,
                                pt[1] * cosine + side[1] * sine + axis[1] * along,
                                pt[2] * cosine + side[2] * sine + axis[2] * along};
      },
      [&] {
        T side[3];
        CrossProduct(angle_axis, pt, side);
        return std::array<T, 3>{pt[0] + side[0], pt[1] + side[1], pt[2] + side[2]};
      });
  for (int k = 0; k < 3; ++k) result[k] = turned[static_cast<std::size_t>(k)];
}

template <typename T, int row_stride, int col_stride>
void RotationMatrixToAngleAxis(const MatrixAdapter<const T, row_stride, col_stride>& R,
                               T* angle_axis) {
  T quaternion[4];
  RotationMatrixToQuaternion(R, quaternion);
  QuaternionToAngleAxis(quaternion, angle_axis);
}
/// R is column-major.
template <typename T>
void RotationMatrixToAngleAxis(const T* R, T* angle_axis) {
  RotationMatrixToAngleAxis(ColumnMajorAdapter3x3(R), angle_axis);
}

template <typename T, int row_stride, int col_stride>
void AngleAxisToRotationMatrix(const T* angle_axis,
                               const MatrixAdapter<T, row_stride, col_stride>& R) {
  // The columns are the rotated axes of the coordinate system.
  for (int column = 0; column < 3; ++column) {
    T axis[3], turned[3];
    for (int k = 0; k < 3; ++k) axis[k] = internal::Constant<T>(k == column ? 1 : 0);
    AngleAxisRotatePoint(angle_axis, axis, turned);
    for (int row = 0; row < 3; ++row) R(row, column) = turned[row];
  }
}
/// R is column-major.
template <typename T>
void AngleAxisToRotationMatrix(const T* angle_axis, T* R) {
  AngleAxisToRotationMatrix(angle_axis, ColumnMajorAdapter3x3(R));
}

}  // namespace ceres
