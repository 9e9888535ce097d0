// Value as a scalar of Eigen: Eigen::Matrix<Value, 3, 1> and its algebra trace like plain Values.
#pragma once

#include "mat.hpp"

#include <Eigen/Core>
#include <limits>

namespace Eigen {

/// A Value is a real scalar with the precision of double.
///
/// Numbers that Eigen creates (the 1 of AngleAxis::toRotationMatrix, the 0 of setZero) become data,
/// like every converted number. Functions of Eigen that branch on a scalar (normalized, stableNorm,
/// pivoting decompositions) record guards; topograd::normalize and topograd::inverse do not branch.
template <>
struct NumTraits<topograd::Value> : GenericNumTraits<topograd::Value> {
  using Real = topograd::Value;
  using NonInteger = topograd::Value;
  using Nested = topograd::Value;
  using Literal = topograd::Value;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 1,
    AddCost = 1,
    MulCost = 1
  };
  static Real epsilon() { return topograd::literal(std::numeric_limits<double>::epsilon()); }
  static Real dummy_precision() { return topograd::literal(1e-12); }
  static Real highest() { return topograd::literal(std::numeric_limits<double>::max()); }
  static Real lowest() { return topograd::literal(std::numeric_limits<double>::lowest()); }
  static int digits10() { return std::numeric_limits<double>::digits10; }
};

template <class Operation>
struct ScalarBinaryOpTraits<topograd::Value, double, Operation> {
  using ReturnType = topograd::Value;
};
template <class Operation>
struct ScalarBinaryOpTraits<double, topograd::Value, Operation> {
  using ReturnType = topograd::Value;
};

namespace internal {

/// Eigen's expressions refer to their operands, which is an error if `auto` keeps an expression of
/// temporaries. Expressions of Values hold copies: 8 bytes per entry while tracing.
template <class Plain>
struct RefSelectorOfValues {
  using type = const Plain;
  using non_const_type = Plain&;
};
template <class Plain>
struct RefSelectorOfValues<const Plain> {
  using type = const Plain;
  using non_const_type = const Plain;
};
template <int Rows, int Cols, int Options, int MaxRows, int MaxCols>
struct ref_selector<Matrix<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>>
    : RefSelectorOfValues<Matrix<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>> {};
template <int Rows, int Cols, int Options, int MaxRows, int MaxCols>
struct ref_selector<const Matrix<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>>
    : RefSelectorOfValues<const Matrix<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>> {};
template <int Rows, int Cols, int Options, int MaxRows, int MaxCols>
struct ref_selector<Array<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>>
    : RefSelectorOfValues<Array<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>> {};
template <int Rows, int Cols, int Options, int MaxRows, int MaxCols>
struct ref_selector<const Array<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>>
    : RefSelectorOfValues<const Array<topograd::Value, Rows, Cols, Options, MaxRows, MaxCols>> {};

}  // namespace internal
}  // namespace Eigen

namespace topograd {

/// Converts vectors and matrices to Eigen's types and back. Results are const, so that their
/// transposes are copies, too.
///
/// `auto` may keep sums, products and transposes of them. Parts of a temporary matrix (head(),
/// col(), block()) refer to it, as everywhere in Eigen: give the matrix a name first.
inline const Eigen::Matrix<Value, 2, 1> to_eigen(const Vec2& v) { return {v.x, v.y}; }
inline const Eigen::Matrix<Value, 3, 1> to_eigen(const Vec3& v) { return {v.x, v.y, v.z}; }
inline const Eigen::Matrix<Value, 4, 1> to_eigen(const Vec4& v) { return {v.x, v.y, v.z, v.w}; }
template <int N>
const Eigen::Matrix<Value, N, N> to_eigen(const Mat<N>& m) {
  Eigen::Matrix<Value, N, N> result;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) result(i, j) = m(i, j);
  return result;
}
inline Vec2 from_eigen(const Eigen::Matrix<Value, 2, 1>& v) { return {v[0], v[1]}; }
inline Vec3 from_eigen(const Eigen::Matrix<Value, 3, 1>& v) { return {v[0], v[1], v[2]}; }
inline Vec4 from_eigen(const Eigen::Matrix<Value, 4, 1>& v) { return {v[0], v[1], v[2], v[3]}; }
inline Mat2 from_eigen(const Eigen::Matrix<Value, 2, 2>& m) {
  return detail::fill<2>([&](int i, int j) { return m(i, j); });
}
inline Mat3 from_eigen(const Eigen::Matrix<Value, 3, 3>& m) {
  return detail::fill<3>([&](int i, int j) { return m(i, j); });
}

}  // namespace topograd
