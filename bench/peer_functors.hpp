// The residuals of the reference problems as functors in Ceres' style, for Ceres and for programs
// that use its interface.
#pragma once

#include <ceres/rotation.h>

#include <cmath>

namespace topograd::bench {

/// ‖a − b‖ − L.
struct Spring {
  double rest;
  template <class T>
  bool operator()(const T* a, const T* b, T* r) const {
    using std::sqrt;
    const T d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    r[0] = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) - T(rest);
    return true;
  }
};

/// w (a − c).
struct Target {
  double weight, c[3];
  template <class T>
  bool operator()(const T* a, T* r) const {
    for (int k = 0; k < 3; ++k) r[k] = T(weight) * (a[k] - T(c[k]));
    return true;
  }
};

/// p − q − R(a) u.
struct ArapEdge {
  double u[3];
  template <class T>
  bool operator()(const T* p, const T* q, const T* a, T* r) const {
    const T rest[3] = {T(u[0]), T(u[1]), T(u[2])};
    T turned[3];
    ceres::AngleAxisRotatePoint(a, rest, turned);
    for (int k = 0; k < 3; ++k) r[k] = p[k] - q[k] - turned[k];
    return true;
  }
};

/// √max(w, 10⁻⁴) (a − b), w = ½ (cot at l + cot at r).
struct Smoothing {
  template <class T>
  static T cotangent(const T* at, const T* a, const T* b) {
    using std::sqrt;
    const T u[3] = {a[0] - at[0], a[1] - at[1], a[2] - at[2]};
    const T v[3] = {b[0] - at[0], b[1] - at[1], b[2] - at[2]};
    T cross[3];
    ceres::CrossProduct(u, v, cross);
    return ceres::DotProduct(u, v) / sqrt(ceres::DotProduct(cross, cross));
  }
  template <class T>
  bool operator()(const T* a, const T* b, const T* l, const T* r, T* out) const {
    using std::fmax;
    using std::sqrt;
    const T w = T(0.5) * (cotangent(l, a, b) + cotangent(r, a, b));
    const T factor = sqrt(fmax(w, T(1e-4)));
    for (int k = 0; k < 3; ++k) out[k] = factor * (a[k] - b[k]);
    return true;
  }
};

/// f (1 + k1 s + k2 s²) p − seen, p = −(P.x, P.y) / P.z, s = |p|², P = R(a) X + t.
struct Observation {
  double seen[2];
  template <class T>
  bool operator()(const T* camera, const T* point, T* r) const {
    T P[3];
    ceres::AngleAxisRotatePoint(camera, point, P);
    for (int k = 0; k < 3; ++k) P[k] += camera[3 + k];
    const T u = -P[0] / P[2], v = -P[1] / P[2], s = u * u + v * v;
    const T scale = camera[6] * (T(1) + s * (camera[7] + camera[8] * s));
    r[0] = scale * u - T(seen[0]);
    r[1] = scale * v - T(seen[1]);
    return true;
  }
};

/// The image of a point in one of COLMAP's camera models, by the model's number, minus `seen`; pose
/// is a rotation vector and the position of the camera.
template <int Model>
struct ColmapObservation {
  static constexpr int kSizes[11] = {3, 4, 4, 5, 8, 8, 12, 5, 4, 5, 12};
  static constexpr int kSize = kSizes[Model];
  static constexpr bool kOneFocal =
      Model == 0 || Model == 2 || Model == 3 || Model == 8 || Model == 9;
  static constexpr bool kFisheye = Model == 5 || Model == 8 || Model == 9 || Model == 10;

  double seen[2];

  template <class T>
  static void distort(const T* k, T& u, T& v) {
    const T s = u * u + v * v, one(1), two(2);
    T radial = one, du(0), dv(0);
    if constexpr (Model == 2 || Model == 8) radial = one + k[0] * s;
    if constexpr (Model == 3 || Model == 9) radial = one + s * (k[0] + s * k[1]);
    if constexpr (Model == 5) radial = one + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3])));
    if constexpr (Model == 4 || Model == 6 || Model == 10) {
      radial = one + s * (k[0] + s * k[1]);
      du = two * k[2] * u * v + k[3] * (s + two * u * u);
      dv = two * k[3] * u * v + k[2] * (s + two * v * v);
    }
    if constexpr (Model == 6) {
      const T cubes = s * s * s;
      radial = (radial + k[4] * cubes) / (one + s * (k[5] + s * k[6]) + k[7] * cubes);
    }
    if constexpr (Model == 10) {
      radial = radial + s * s * s * (k[4] + s * k[5]);
      du = du + k[6] * s;
      dv = dv + k[7] * s;
    }
    if constexpr (Model == 7) {
      using std::atan;
      using std::sqrt;
      using std::tan;
      const T r = sqrt(s);
      radial = atan(two * r * tan(k[0] / two)) / (r * k[0]);
    }
    u = u * radial + du;
    v = v * radial + dv;
  }

  /// P is the point in the frame of the camera.
  template <class T>
  void project(const T* camera, const T* P, T* r) const {
    T u, v;
    if constexpr (kFisheye) {  // also beyond 90 degrees
      using std::atan2;
      using std::sqrt;
      const T length = sqrt(P[0] * P[0] + P[1] * P[1]), scale = atan2(length, P[2]) / length;
      u = P[0] * scale;
      v = P[1] * scale;
    } else {
      u = P[0] / P[2];
      v = P[1] / P[2];
    }
    constexpr int kCenter = kOneFocal ? 1 : 2;
    distort(camera + kCenter + 2, u, v);
    r[0] = camera[0] * u + camera[kCenter] - T(seen[0]);
    r[1] = camera[kCenter - 1] * v + camera[kCenter + 1] - T(seen[1]);
  }

  template <class T>
  static void to_frame(const T* pose, const T* point, T* P) {
    const T away[3] = {point[0] - pose[3], point[1] - pose[4], point[2] - pose[5]};
    ceres::AngleAxisRotatePoint(pose, away, P);
  }

  template <class T>
  bool operator()(const T* pose, const T* camera, const T* point, T* r) const {
    T P[3];
    to_frame(pose, point, P);
    project(camera, P, r);
    return true;
  }
  /// In a rig: a rotation vector and a translation take points from the frame to the camera.
  template <class T>
  bool operator()(const T* pose, const T* sensor, const T* camera, const T* point, T* r) const {
    T in_frame[3], P[3];
    to_frame(pose, point, in_frame);
    ceres::AngleAxisRotatePoint(sensor, in_frame, P);
    for (int k = 0; k < 3; ++k) P[k] += sensor[3 + k];
    project(camera, P, r);
    return true;
  }
};

/// Replaces e by A e, where A is a lower triangle, row by row.
template <int N, class T>
void times_lower(const double* A, T* e) {
  for (int row = N; row-- > 0;) {
    const double* numbers = A + row * (row + 1) / 2;
    e[row] *= T(numbers[row]);
    for (int k = 0; k < row; ++k) e[row] += T(numbers[k]) * e[k];
  }
}

/// A (c − p) of the position c of a camera; in a rig c − R(pose)ᵀ R(sensor)ᵀ t takes its place.
struct ColmapPrior {
  const double* numbers;  ///< as PeerTerm has them
  template <class T>
  bool operator()(const T* pose, T* r) const {
    for (int k = 0; k < 3; ++k) r[k] = pose[3 + k] - T(numbers[k]);
    times_lower<3>(numbers + 3, r);
    return true;
  }
  template <class T>
  bool operator()(const T* pose, const T* sensor, T* r) const {
    const T frame_back[3] = {-pose[0], -pose[1], -pose[2]},
            sensor_back[3] = {-sensor[0], -sensor[1], -sensor[2]};
    T in_frame[3], off[3];
    ceres::AngleAxisRotatePoint(sensor_back, sensor + 3, in_frame);
    ceres::AngleAxisRotatePoint(frame_back, in_frame, off);
    for (int k = 0; k < 3; ++k) r[k] = pose[3 + k] - off[k] - T(numbers[k]);
    times_lower<3>(numbers + 3, r);
    return true;
  }
};

/// A (R(a)ᵀ (q − p) − u, angle b − a − ũ) of the poses (p, a) and (q, b).
struct PlanarEdge {
  const double* numbers;  ///< as PeerTerm has them
  template <class T>
  bool operator()(const T* from, const T* to, T* r) const {
    using std::cos;
    using std::floor;
    using std::sin;
    const T c = cos(from[2]), s = sin(from[2]), x = to[0] - from[0], y = to[1] - from[1];
    const T turn = to[2] - from[2] - T(numbers[2]);
    constexpr double kPi = 3.14159265358979323846;
    r[0] = c * x + s * y - T(numbers[0]);
    r[1] = c * y - s * x - T(numbers[1]);
    r[2] = numbers[3] != 0 ? T(2) * sin(T(0.5) * turn)
                           : turn - T(2 * kPi) * floor((turn + T(kPi)) / T(2 * kPi));
    times_lower<3>(numbers + 4, r);
    return true;
  }
};

/// A (R(a)ᵀ (q − p) − u, 2 vec(ũ (a⁻¹ b)⁻¹)).
struct SpatialEdge {
  const double* numbers;  ///< as PeerTerm has them
  template <class T>
  bool operator()(const T* p, const T* a, const T* q, const T* b, T* r) const {
    const T back[4] = {a[0], -a[1], -a[2], -a[3]}, d[3] = {q[0] - p[0], q[1] - p[1], q[2] - p[2]};
    ceres::UnitQuaternionRotatePoint(back, d, r);
    const T b_back[4] = {b[0], -b[1], -b[2], -b[3]};
    const T measured[4] = {T(numbers[3]), T(numbers[4]), T(numbers[5]), T(numbers[6])};
    T between[4], turn[4];
    ceres::QuaternionProduct(b_back, a, between);
    ceres::QuaternionProduct(measured, between, turn);
    for (int k = 0; k < 3; ++k) {
      r[k] -= T(numbers[k]);
      r[3 + k] = (turn[0] < T(0) ? T(-2) : T(2)) * turn[1 + k];
    }
    times_lower<6>(numbers + 7, r);
    return true;
  }
};

}  // namespace topograd::bench
