// Quaternions of Values: one type for manifolds, functions and both orders of storage.
#pragma once

#include "mat.hpp"

#include <iosfwd>

namespace topograd {

/// w + x i + y j + z k. The order in memory is chosen where a quaternion is read (Parameters::quat,
/// eigen_quat, from_wxyz, from_xyzw) or stored; code uses the members' names.
///
/// | order in memory | manifold | unknowns | numbers |
/// |---|---|---|---|
/// | w, x, y, z | Manifold::quaternion() | x.quat(i) | from_wxyz() |
/// | x, y, z, w (Eigen's) | Manifold::eigen_quaternion() | x.eigen_quat(i) | from_xyzw() |
template <class T>
struct BasicQuat {
  T w, x, y, z;
};

/// Hamilton's product: rotates by q, then by p.
template <class T>
BasicQuat<T> operator*(const BasicQuat<T>& p, const BasicQuat<T>& q) {
  return {
      p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z, p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y,
      p.w * q.y - p.x * q.z + p.y * q.w + p.z * q.x, p.w * q.z + p.x * q.y - p.y * q.x + p.z * q.w};
}

/// The inverse of a unit quaternion.
template <class T>
BasicQuat<T> conjugate(const BasicQuat<T>& q) {
  return {q.w, -q.x, -q.y, -q.z};
}

using Quat = BasicQuat<Value>;

/// Convert four numbers in either order to a quaternion, and back.
inline Quat from_wxyz(const Vec4& v) { return {v.x, v.y, v.z, v.w}; }
inline Quat from_xyzw(const Vec4& v) { return {v.w, v.x, v.y, v.z}; }
inline Vec4 to_wxyz(const Quat& q) { return {q.w, q.x, q.y, q.z}; }
inline Vec4 to_xyzw(const Quat& q) { return {q.x, q.y, q.z, q.w}; }

/// The unit quaternion of the rotation about `axis_angle` by its length in radians. First
/// derivatives at 0 are exact, higher ones accurate to double precision below |axis_angle|^2 =
/// 2^-12.
Quat from_axis_angle(const Vec3& axis_angle);
/// The axis times the angle in [0, pi] of q's rotation; the length of q has no influence.
/// Derivatives are exact at the identity, and NaN for a zero quaternion.
Vec3 to_axis_angle(const Quat& q);

/// Prints "(w: ..., x: ..., y: ..., z: ...)".
std::ostream& operator<<(std::ostream& out, const Quat& q);

/// As for Vec4.
inline Value squared_norm(const Quat& q) { return squared_norm(to_wxyz(q)); }
inline Value norm(const Quat& q) { return norm(to_wxyz(q)); }
inline Quat normalize(const Quat& q) { return from_wxyz(normalize(to_wxyz(q))); }

/// Rotates v by q.
///
/// The length of `q` has no influence, and the derivative along `q` is 0. A zero quaternion does
/// not rotate and has derivative 0.
Vec3 rotate(const Quat& q, const Vec3& v);
/// The matrix of the rotation by q.
Mat3 rotation_matrix(const Quat& q);

}  // namespace topograd
