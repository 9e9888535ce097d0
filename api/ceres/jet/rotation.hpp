// Rotations on any scalar: axis-angle vectors, quaternions (w, x, y, z), matrices and Euler angles.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "value_functions.hpp"

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

namespace internal {

/// Three turns, the first one about axis `First`; about axes that turn along if `Intrinsic`.
template <int First, int Second, int Third, bool Intrinsic>
struct EulerSystem {
  static_assert(First != Second && Second != Third);
  static constexpr bool kIsIntrinsic = Intrinsic;
  static constexpr bool kIsProperEuler = First == Third;
  /// Axes of the product R(kTurns[0]) R(kTurns[1]) R(kTurns[2]).
  static constexpr std::array<int, 3> kTurns = {Intrinsic ? First : Third, Second,
                                                Intrinsic ? Third : First};
  /// As in Ceres: the axes, each once, from the last factor on, and whether they are not in the
  /// order of X, Y, Z, X, Y.
  static constexpr int kAxes[3] = {kTurns[2], Second, 3 - kTurns[2] - Second};
  static constexpr bool kIsParityOdd = (kTurns[2] + 1) % 3 != Second;
  /// The number of the angle of a factor of that product.
  static constexpr int Angle(int factor) { return Intrinsic ? factor : 2 - factor; }
};

}  // namespace internal

#define TG_CERES_EULER(name, first, second, third)                            \
  using Extrinsic##name = internal::EulerSystem<first, second, third, false>; \
  using Intrinsic##name = internal::EulerSystem<first, second, third, true>;
TG_CERES_EULER(XYZ, 0, 1, 2)
TG_CERES_EULER(XYX, 0, 1, 0)
TG_CERES_EULER(XZY, 0, 2, 1)
TG_CERES_EULER(XZX, 0, 2, 0)
TG_CERES_EULER(YZX, 1, 2, 0)
TG_CERES_EULER(YZY, 1, 2, 1)
TG_CERES_EULER(YXZ, 1, 0, 2)
TG_CERES_EULER(YXY, 1, 0, 1)
TG_CERES_EULER(ZXY, 2, 0, 1)
TG_CERES_EULER(ZXZ, 2, 0, 2)
TG_CERES_EULER(ZYX, 2, 1, 0)
TG_CERES_EULER(ZYZ, 2, 1, 2)
#undef TG_CERES_EULER

/// The rotation by three angles in radians, as in EulerAnglesToRotation<IntrinsicZYX>(euler, R).
template <typename EulerSystem, typename T, int row_stride, int col_stride>
void EulerAnglesToRotation(const T* euler, const MatrixAdapter<T, row_stride, col_stride>& R) {
  using std::cos;
  using std::sin;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) R(r, c) = internal::Constant<T>(r == c ? 1 : 0);
  for (int factor = 0; factor < 3; ++factor) {
    const T angle = euler[EulerSystem::Angle(factor)];
    const T cosine = cos(angle), sine = sin(angle);
    const int axis = EulerSystem::kTurns[static_cast<std::size_t>(factor)];
    const int u = (axis + 1) % 3, v = (axis + 2) % 3;
    for (int r = 0; r < 3; ++r) {
      const T at_u = R(r, u), at_v = R(r, v);
      R(r, u) = cosine * at_u + sine * at_v;
      R(r, v) = cosine * at_v - sine * at_u;
    }
  }
}
/// R is row-major.
template <typename EulerSystem, typename T>
void EulerAnglesToRotation(const T* euler, T* R) {
  EulerAnglesToRotation<EulerSystem>(euler, RowMajorAdapter3x3(R));
}

/// The angles of a rotation in radians: the second one is in [0, pi] for a system whose first and
/// last axes agree, in [-pi / 2, pi / 2] for others. Where it leaves the other two undetermined,
/// the product is still R.
template <typename EulerSystem, typename T, int row_stride, int col_stride>
void RotationMatrixToEulerAngles(const MatrixAdapter<const T, row_stride, col_stride>& R,
                                 T* euler) {
  using std::atan2;
  using std::cos;
  using std::sin;
  constexpr int i = EulerSystem::kTurns[0], j = EulerSystem::kTurns[1], k = 3 - i - j;
  const T sign = internal::Constant<T>((i + 1) % 3 == j ? 1 : -1);
  T& first = euler[EulerSystem::Angle(0)];
  T& second = euler[EulerSystem::Angle(1)];
  T& third = euler[EulerSystem::Angle(2)];
  if constexpr (EulerSystem::kIsProperEuler)
    first = atan2(R(j, i), -sign * R(k, i));
  else
    first = atan2(-sign * R(j, k), R(k, k));
  // Rows j and k without the first turn.
  const T cosine = cos(first), sine = sign * sin(first);
  const auto at_j = [&](int c) { return cosine * R(j, c) + sine * R(k, c); };
  const auto at_k = [&](int c) { return cosine * R(k, c) - sine * R(j, c); };
  if constexpr (EulerSystem::kIsProperEuler) {
    second = atan2(-sign * at_k(i), R(i, i));
    third = atan2(-sign * at_j(k), at_j(j));
  } else {
    second = atan2(sign * R(i, k), at_k(k));
    third = atan2(sign * at_j(i), at_j(j));
  }
}
/// R is row-major.
template <typename EulerSystem, typename T>
void RotationMatrixToEulerAngles(const T* R, T* euler) {
  RotationMatrixToEulerAngles<EulerSystem>(RowMajorAdapter3x3(R), euler);
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
