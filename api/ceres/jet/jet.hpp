// Jet with its functions, as a scalar of Eigen and of the standard library.
#pragma once

#include "jet_arithmetic.hpp"
#include "jet_functions.hpp"

#include <Eigen/Core>

#include <limits>
#include <type_traits>

namespace Eigen {

template <typename T, int N>
struct NumTraits<ceres::Jet<T, N>> {
  using Real = ceres::Jet<T, N>;
  using NonInteger = ceres::Jet<T, N>;
  using Nested = ceres::Jet<T, N>;
  using Literal = ceres::Jet<T, N>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 1,
    AddCost = 1,
    MulCost = 3,
    HasFloatingPoint = 1
  };
  template <bool Vectorized>
  struct Div {
    enum { Cost = 3 };
  };
  static Real epsilon() { return Real(T(std::numeric_limits<double>::epsilon())); }
  static Real dummy_precision() { return Real(T(1e-12)); }
  static Real highest() { return Real(T(std::numeric_limits<double>::max())); }
  static Real lowest() { return Real(T(std::numeric_limits<double>::lowest())); }
  static int digits10() { return NumTraits<T>::digits10(); }
  static int max_digits10() { return std::numeric_limits<double>::max_digits10; }
};

template <typename Operation, typename T, int N>
struct ScalarBinaryOpTraits<ceres::Jet<T, N>, T, Operation> {
  using ReturnType = ceres::Jet<T, N>;
};
template <typename Operation, typename T, int N>
struct ScalarBinaryOpTraits<T, ceres::Jet<T, N>, Operation> {
  using ReturnType = ceres::Jet<T, N>;
};

}  // namespace Eigen

namespace std {

template <typename T, int N>
struct numeric_limits<ceres::Jet<T, N>> : numeric_limits<T> {
  using Jet = ceres::Jet<T, N>;
  static constexpr bool is_specialized = true;
  static Jet min() noexcept { return Jet(numeric_limits<T>::min()); }
  static Jet lowest() noexcept { return Jet(numeric_limits<T>::lowest()); }
  static Jet max() noexcept { return Jet(numeric_limits<T>::max()); }
  static Jet epsilon() noexcept { return Jet(numeric_limits<T>::epsilon()); }
  static Jet round_error() noexcept { return Jet(numeric_limits<T>::round_error()); }
  static Jet infinity() noexcept { return Jet(numeric_limits<T>::infinity()); }
  static Jet quiet_NaN() noexcept { return Jet(numeric_limits<T>::quiet_NaN()); }
  static Jet signaling_NaN() noexcept { return Jet(numeric_limits<T>::signaling_NaN()); }
  static Jet denorm_min() noexcept { return Jet(numeric_limits<T>::denorm_min()); }
};

template <typename T, int N, typename U>
struct common_type<T, ceres::Jet<U, N>> {
  using type = ceres::Jet<common_type_t<T, U>, N>;
};
template <typename T, int N, typename U>
struct common_type<ceres::Jet<T, N>, U> {
  using type = ceres::Jet<common_type_t<T, U>, N>;
};
template <typename T, int N, typename U>
struct common_type<ceres::Jet<T, N>, ceres::Jet<U, N>> {
  using type = ceres::Jet<common_type_t<T, U>, N>;
};

}  // namespace std
