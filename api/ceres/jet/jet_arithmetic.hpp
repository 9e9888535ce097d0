// Jet: a number with its derivatives in N directions, and its arithmetic.
#pragma once

#include "jet_fwd.hpp"

#include <Eigen/Core>

#include <iostream>  // as in Ceres; user code relies on it
#include <type_traits>

namespace ceres {

/// a + v·ε with ε² = 0: arithmetic on Jets computes first derivatives.
///
/// Comparisons use only `a`. AutoDiffCostFunction::Evaluate calls functors with Jets, on the CPU; a
/// solve traces them instead (frontend/value/value.hpp). T may be a Jet itself.
/// Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.1.
template <typename T, int N>
struct Jet {
  enum { DIMENSION = N };
  using Scalar = T;

  Jet() : a(T(0)) { v.setConstant(T(0)); }
  explicit Jet(const T& value) : a(value) { v.setConstant(T(0)); }
  /// A number, where T is a Jet.
  explicit Jet(double value) requires requires { T::DIMENSION; } : a(value) {
    v.setConstant(T(0));
  }
  /// The k-th of N independent variables.
  Jet(const T& value, int k) : a(value) {
    v.setConstant(T(0));
    v[k] = T(1);
  }
  template <typename Derived>
  Jet(const T& value, const Eigen::DenseBase<Derived>& derivatives) : a(value), v(derivatives) {}

  Jet& operator+=(const Jet& y) { return *this = *this + y; }
  Jet& operator-=(const Jet& y) { return *this = *this - y; }
  Jet& operator*=(const Jet& y) { return *this = *this * y; }
  Jet& operator/=(const Jet& y) { return *this = *this / y; }
  Jet& operator+=(const T& s) { return *this = *this + s; }
  Jet& operator-=(const T& s) { return *this = *this - s; }
  Jet& operator*=(const T& s) { return *this = *this * s; }
  Jet& operator/=(const T& s) { return *this = *this / s; }

  T a;
  Eigen::Matrix<T, N, 1> v;

  EIGEN_MAKE_ALIGNED_OPERATOR_NEW
};

template <typename T, int N>
Jet<T, N> const& operator+(const Jet<T, N>& f) {
  return f;
}
template <typename T, int N>
Jet<T, N> operator-(const Jet<T, N>& f) {
  return Jet<T, N>(-f.a, -f.v);
}
template <typename T, int N>
Jet<T, N> operator+(const Jet<T, N>& f, const Jet<T, N>& g) {
  return Jet<T, N>(f.a + g.a, f.v + g.v);
}
template <typename T, int N>
Jet<T, N> operator-(const Jet<T, N>& f, const Jet<T, N>& g) {
  return Jet<T, N>(f.a - g.a, f.v - g.v);
}
template <typename T, int N>
Jet<T, N> operator*(const Jet<T, N>& f, const Jet<T, N>& g) {
  return Jet<T, N>(f.a * g.a, f.a * g.v + f.v * g.a);
}
template <typename T, int N>
Jet<T, N> operator/(const Jet<T, N>& f, const Jet<T, N>& g) {
  const T quotient = f.a / g.a;
  return Jet<T, N>(quotient, (f.v - quotient * g.v) / g.a);
}

// Operations with a scalar. T is not deduced from the scalar, so that any number converts.
template <typename T, int N>
Jet<T, N> operator+(const Jet<T, N>& f, const std::type_identity_t<T>& s) {
  return Jet<T, N>(f.a + s, f.v);
}
template <typename T, int N>
Jet<T, N> operator+(const std::type_identity_t<T>& s, const Jet<T, N>& f) {
  return Jet<T, N>(s + f.a, f.v);
}
template <typename T, int N>
Jet<T, N> operator-(const Jet<T, N>& f, const std::type_identity_t<T>& s) {
  return Jet<T, N>(f.a - s, f.v);
}
template <typename T, int N>
Jet<T, N> operator-(const std::type_identity_t<T>& s, const Jet<T, N>& f) {
  return Jet<T, N>(s - f.a, -f.v);
}
template <typename T, int N>
Jet<T, N> operator*(const Jet<T, N>& f, const std::type_identity_t<T>& s) {
  return Jet<T, N>(f.a * s, f.v * s);
}
template <typename T, int N>
Jet<T, N> operator*(const std::type_identity_t<T>& s, const Jet<T, N>& f) {
  return Jet<T, N>(s * f.a, s * f.v);
}
template <typename T, int N>
Jet<T, N> operator/(const Jet<T, N>& f, const std::type_identity_t<T>& s) {
  return Jet<T, N>(f.a / s, f.v / s);
}
template <typename T, int N>
Jet<T, N> operator/(const std::type_identity_t<T>& s, const Jet<T, N>& g) {
  const T quotient = s / g.a;
  return Jet<T, N>(quotient, g.v * (-quotient / g.a));
}

#define TG_CERES_COMPARE(op)                                               \
  template <typename T, int N>                                             \
  bool operator op(const Jet<T, N>& f, const Jet<T, N>& g) {               \
    return f.a op g.a;                                                     \
  }                                                                        \
  template <typename T, int N>                                             \
  bool operator op(const Jet<T, N>& f, const std::type_identity_t<T>& s) { \
    return f.a op s;                                                       \
  }                                                                        \
  template <typename T, int N>                                             \
  bool operator op(const std::type_identity_t<T>& s, const Jet<T, N>& f) { \
    return s op f.a;                                                       \
  }                                                                        \
  template <typename T, int M, int N>                                      \
  bool operator op(const Jet<Jet<T, M>, N>& f, double s) {                 \
    return f.a op s;                                                       \
  }                                                                        \
  template <typename T, int M, int N>                                      \
  bool operator op(double s, const Jet<Jet<T, M>, N>& f) {                 \
    return s op f.a;                                                       \
  }
TG_CERES_COMPARE(<)
TG_CERES_COMPARE(<=)
TG_CERES_COMPARE(>)
TG_CERES_COMPARE(>=)
TG_CERES_COMPARE(==)
TG_CERES_COMPARE(!=)
#undef TG_CERES_COMPARE

template <typename T, int N>
std::ostream& operator<<(std::ostream& out, const Jet<T, N>& f) {
  out << "[" << f.a << " ; ";
  for (int k = 0; k < N; ++k) out << f.v[k] << (k + 1 < N ? ", " : "");
  return out << "]";
}

}  // namespace ceres
