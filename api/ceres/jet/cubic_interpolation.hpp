// Cubic interpolation of samples on a grid, by Catmull-Rom splines.
#pragma once

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "jet.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

namespace ceres {

/// The spline through p1 (at x = 0) and p2 (at x = 1) with slopes (p2 - p0) / 2 and (p3 - p1) / 2:
/// value and derivative at x, each of which may be nullptr.
/// Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981.
template <int kDataDimension>
void CubicHermiteSpline(const Eigen::Matrix<double, kDataDimension, 1>& p0,
                        const Eigen::Matrix<double, kDataDimension, 1>& p1,
                        const Eigen::Matrix<double, kDataDimension, 1>& p2,
                        const Eigen::Matrix<double, kDataDimension, 1>& p3, const double x,
                        double* f, double* dfdx) {
  using Sample = Eigen::Matrix<double, kDataDimension, 1>;
  const Sample cubic = 0.5 * (-p0 + 3.0 * p1 - 3.0 * p2 + p3);
  const Sample quadratic = 0.5 * (2.0 * p0 - 5.0 * p1 + 4.0 * p2 - p3);
  const Sample linear = 0.5 * (-p0 + p2);
  if (f != nullptr)
    Eigen::Map<Sample>(f, kDataDimension) = p1 + x * (linear + x * (quadratic + x * cubic));
  if (dfdx != nullptr)
    Eigen::Map<Sample>(dfdx, kDataDimension) = linear + x * (2.0 * quadratic + 3.0 * x * cubic);
}

namespace internal {

[[noreturn]] inline void RefuseLookup() {
  throw topograd::Error(topograd::ErrorCode::Unsupported,
                        "trace: a value chooses which samples are interpolated");
}

}  // namespace internal

/// Samples of kDataDimension numbers at begin, begin + 1, ...; the outermost samples are repeated
/// outside of the grid. Refers to the data.
template <typename T, int kDataDimension = 1, bool kInterleaved = true>
struct Grid1D {
  enum { DATA_DIMENSION = kDataDimension };
  Grid1D(const T* data, int begin, int end)
      : data_(data), begin_(begin), end_(end), num_values_(end - begin) {}
  void GetValue(int n, double* f) const {
    const int at = std::clamp(n, begin_, end_ - 1) - begin_;
    for (int k = 0; k < kDataDimension; ++k)
      f[k] =
          static_cast<double>(data_[kInterleaved ? kDataDimension * at + k : k * num_values_ + at]);
  }

 private:
  const T* data_;
  int begin_, end_, num_values_;
};

/// Samples at integer rows and columns, in row or column order. Refers to the data.
template <typename T, int kDataDimension = 1, bool kRowMajor = true, bool kInterleaved = true>
struct Grid2D {
  enum { DATA_DIMENSION = kDataDimension };
  Grid2D(const T* data, int row_begin, int row_end, int col_begin, int col_end)
      : data_(data),
        row_begin_(row_begin),
        row_end_(row_end),
        col_begin_(col_begin),
        col_end_(col_end) {}
  void GetValue(int r, int c, double* f) const {
    const int rows = row_end_ - row_begin_, columns = col_end_ - col_begin_;
    const int row = std::clamp(r, row_begin_, row_end_ - 1) - row_begin_;
    const int column = std::clamp(c, col_begin_, col_end_ - 1) - col_begin_;
    const int at = kRowMajor ? columns * row + column : rows * column + row;
    for (int k = 0; k < kDataDimension; ++k)
      f[k] = static_cast<double>(
          data_[kInterleaved ? kDataDimension * at + k : k * rows * columns + at]);
  }

 private:
  const T* data_;
  int row_begin_, row_end_, col_begin_, col_end_;
};

/// A function of one number from samples. Functors that use it run on the CPU.
template <typename Grid>
class CubicInterpolator {
 public:
  explicit CubicInterpolator(const Grid& grid) : grid_(grid) {}

  void Evaluate(double x, double* f, double* dfdx) const {
    const int n = static_cast<int>(std::floor(x));
    Sample p[4];
    for (int k = 0; k < 4; ++k) grid_.GetValue(n - 1 + k, p[k].data());
    CubicHermiteSpline<Grid::DATA_DIMENSION>(p[0], p[1], p[2], p[3], x - n, f, dfdx);
  }
  void Evaluate(const double& x, double* f) const { Evaluate(x, f, nullptr); }
  template <typename T, int N>
  void Evaluate(const Jet<T, N>& x, Jet<T, N>* f) const {
    double value[Grid::DATA_DIMENSION], slope[Grid::DATA_DIMENSION];
    Evaluate(x.a, value, slope);
    for (int k = 0; k < Grid::DATA_DIMENSION; ++k) f[k] = Jet<T, N>(value[k], slope[k] * x.v);
  }
  /// Throws Error{Unsupported}: an expression cannot look up samples.
  void Evaluate(const topograd::Value&, topograd::Value*) const { internal::RefuseLookup(); }

 private:
  using Sample = Eigen::Matrix<double, Grid::DATA_DIMENSION, 1>;
  const Grid& grid_;
};

/// A function of two numbers from samples. Functors that use it run on the CPU.
template <typename Grid>
class BiCubicInterpolator {
 public:
  explicit BiCubicInterpolator(const Grid& grid) : grid_(grid) {}

  void Evaluate(double r, double c, double* f, double* dfdr, double* dfdc) const {
    const int row = static_cast<int>(std::floor(r)), column = static_cast<int>(std::floor(c));
    Sample along[4], slopes[4];  // of four rows, at c
    for (int i = 0; i < 4; ++i) {
      Sample p[4];
      for (int k = 0; k < 4; ++k) grid_.GetValue(row - 1 + i, column - 1 + k, p[k].data());
      CubicHermiteSpline<Grid::DATA_DIMENSION>(p[0], p[1], p[2], p[3], c - column, along[i].data(),
                                               slopes[i].data());
    }
    CubicHermiteSpline<Grid::DATA_DIMENSION>(along[0], along[1], along[2], along[3], r - row, f,
                                             dfdr);
    if (dfdc != nullptr)
      CubicHermiteSpline<Grid::DATA_DIMENSION>(slopes[0], slopes[1], slopes[2], slopes[3], r - row,
                                               dfdc, nullptr);
  }
  void Evaluate(const double& r, const double& c, double* f) const {
    Evaluate(r, c, f, nullptr, nullptr);
  }
  template <typename T, int N>
  void Evaluate(const Jet<T, N>& r, const Jet<T, N>& c, Jet<T, N>* f) const {
    double value[Grid::DATA_DIMENSION], by_r[Grid::DATA_DIMENSION], by_c[Grid::DATA_DIMENSION];
    Evaluate(r.a, c.a, value, by_r, by_c);
    for (int k = 0; k < Grid::DATA_DIMENSION; ++k)
      f[k] = Jet<T, N>(value[k], by_r[k] * r.v + by_c[k] * c.v);
  }
  /// Throws Error{Unsupported}: an expression cannot look up samples.
  void Evaluate(const topograd::Value&, const topograd::Value&, topograd::Value*) const {
    internal::RefuseLookup();
  }

 private:
  using Sample = Eigen::Matrix<double, Grid::DATA_DIMENSION, 1>;
  const Grid& grid_;
};

}  // namespace ceres
