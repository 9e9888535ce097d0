// The covariance energy of a vertex star as a functor for Ceres.
#pragma once

#include <ceres/rotation.h>

#include <Eigen/Eigenvalues>

#include <cmath>
#include <cstddef>
#include <type_traits>

namespace topograd::bench {

/// The smallest eigenvalue of Σ_f θ_f N_f N_fᵀ over the triangles of a vertex and its ring: with
/// the eigenvector v of the matrix of values, vᵀ A v has the same value and first derivatives.
struct Star {
  std::size_t ring;
  bool closed;
  template <class T>
  static double number(const T& x) {
    if constexpr (std::is_same_v<T, double>) {
      return x;
    } else {
      return x.a;
    }
  }
  template <class T>
  bool operator()(const T* const* x, T* r) const {
    using std::atan2;
    using std::sqrt;
    T sum[3][3];
    for (auto& row : sum)
      for (T& entry : row) entry = T(0);
    for (std::size_t f = 0; f < (closed ? ring : ring - 1); ++f) {
      const T *a = x[1 + f], *b = x[1 + (f + 1) % ring];
      T u[3], v[3], n[3];
      for (int k = 0; k < 3; ++k) u[k] = a[k] - x[0][k], v[k] = b[k] - x[0][k];
      ceres::CrossProduct(u, v, n);
      const T square = ceres::DotProduct(n, n);
      const T weight = atan2(sqrt(square), ceres::DotProduct(u, v)) / square;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j <= i; ++j) sum[i][j] += weight * n[i] * n[j];
    }
    Eigen::Matrix3d numbers;  // only the lower triangle is read
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j <= i; ++j) numbers(i, j) = number(sum[i][j]);
    const Eigen::Vector3d v =
        Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d>(numbers).eigenvectors().col(0);
    r[0] = T(0);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j <= i; ++j) r[0] += T((i == j ? 1 : 2) * v[i] * v[j]) * sum[i][j];
    return true;
  }
};

}  // namespace topograd::bench
