// The residuals of the reference problems as functors in Ceres' style, for Ceres and for programs
// that use its interface.
#pragma once

#include <ceres/rotation.h>

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

}  // namespace topograd::bench
