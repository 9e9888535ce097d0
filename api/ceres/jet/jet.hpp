// Jet: a number with its derivatives in N directions, its arithmetic and its functions.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <iostream>  // as in Ceres; user code relies on it
#include <limits>
#include <numbers>
#include <numeric>
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

// Functions of numbers, so that ceres::sqrt(x) means the same for every scalar.
using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::cbrt;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::exp2;
using std::expm1;
using std::fabs;
using std::fdim;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::fpclassify;
using std::hypot;
using std::isfinite;
using std::isgreater;
using std::isgreaterequal;
using std::isinf;
using std::isless;
using std::islessequal;
using std::islessgreater;
using std::isnan;
using std::isnormal;
using std::isunordered;
using std::lerp;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::midpoint;
using std::norm;
using std::pow;
using std::signbit;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;

namespace internal {

/// f(x) for a Jet x: `value` = f(a), `slope` = f'(a).
template <typename T, int N>
Jet<T, N> Chain(const T& value, const T& slope, const Jet<T, N>& x) {
  return Jet<T, N>(value, slope * x.v);
}
/// f(x, y) with both partial derivatives.
template <typename T, int N>
Jet<T, N> Chain(const T& value, const T& by_x, const Jet<T, N>& x, const T& by_y,
                const Jet<T, N>& y) {
  return Jet<T, N>(value, by_x * x.v + by_y * y.v);
}

}  // namespace internal

// One derivative rule per function; `y` is the value at `a`.
#define TG_CERES_FUNCTION(name, slope)      \
  template <typename T, int N>              \
  Jet<T, N> name(const Jet<T, N>& x) {      \
    const T& a = x.a;                       \
    const T y = name(a);                    \
    return internal::Chain(y, T(slope), x); \
  }
TG_CERES_FUNCTION(sqrt, T(1) / (y + y))
TG_CERES_FUNCTION(cbrt, T(1) / (T(3) * y * y))
TG_CERES_FUNCTION(exp, y)
TG_CERES_FUNCTION(exp2, y* T(std::numbers::ln2))
TG_CERES_FUNCTION(expm1, y + T(1))
TG_CERES_FUNCTION(log, T(1) / a)
TG_CERES_FUNCTION(log2, T(1) / (a * T(std::numbers::ln2)))
TG_CERES_FUNCTION(log10, T(1) / (a * T(std::numbers::ln10)))
TG_CERES_FUNCTION(log1p, T(1) / (T(1) + a))
TG_CERES_FUNCTION(sin, cos(a))
TG_CERES_FUNCTION(cos, -sin(a))
TG_CERES_FUNCTION(tan, T(1) + y * y)
TG_CERES_FUNCTION(asin, T(1) / sqrt(T(1) - a * a))
TG_CERES_FUNCTION(acos, -T(1) / sqrt(T(1) - a * a))
TG_CERES_FUNCTION(atan, T(1) / (T(1) + a * a))
TG_CERES_FUNCTION(sinh, cosh(a))
TG_CERES_FUNCTION(cosh, sinh(a))
TG_CERES_FUNCTION(tanh, T(1) - y * y)
TG_CERES_FUNCTION(asinh, T(1) / sqrt(a * a + T(1)))
TG_CERES_FUNCTION(acosh, T(1) / sqrt((a - T(1)) * (a + T(1))))
TG_CERES_FUNCTION(atanh, T(1) / ((T(1) - a) * (T(1) + a)))
TG_CERES_FUNCTION(erf, exp(-a* a) * T(2 * std::numbers::inv_sqrtpi))
TG_CERES_FUNCTION(erfc, -exp(-a* a) * T(2 * std::numbers::inv_sqrtpi))
TG_CERES_FUNCTION(floor, (static_cast<void>(a), T(0)))
TG_CERES_FUNCTION(ceil, (static_cast<void>(a), T(0)))
#undef TG_CERES_FUNCTION

/// The derivative at 0 follows the sign bit.
template <typename T, int N>
Jet<T, N> abs(const Jet<T, N>& x) {
  return signbit(x.a) ? -x : x;
}
template <typename T, int N>
Jet<T, N> fabs(const Jet<T, N>& x) {
  return abs(x);
}
template <typename T, int N>
Jet<T, N> norm(const Jet<T, N>& x) {
  return x * x;
}

template <typename T, int N>
Jet<T, N> atan2(const Jet<T, N>& y, const Jet<T, N>& x) {
  const T scale = T(1) / (x.a * x.a + y.a * y.a);
  return internal::Chain(T(atan2(y.a, x.a)), T(x.a * scale), y, T(-y.a * scale), x);
}

/// 0 at the origin, with derivatives 0.
template <typename T, int N>
Jet<T, N> hypot(const Jet<T, N>& x, const Jet<T, N>& y) {
  const T length = hypot(x.a, y.a);
  if (length == T(0)) return Jet<T, N>(length);
  return internal::Chain(length, T(x.a / length), x, T(y.a / length), y);
}
template <typename T, int N>
Jet<T, N> hypot(const Jet<T, N>& x, const Jet<T, N>& y, const Jet<T, N>& z) {
  return hypot(hypot(x, y), z);
}

template <typename T, int N>
Jet<T, N> copysign(const Jet<T, N>& magnitude, const Jet<T, N>& sign) {
  return signbit(magnitude.a) == signbit(sign.a) ? magnitude : -magnitude;
}
template <typename T, int N>
Jet<T, N> fma(const Jet<T, N>& x, const Jet<T, N>& y, const Jet<T, N>& z) {
  return Jet<T, N>(fma(x.a, y.a, z.a), y.a * x.v + x.a * y.v + z.v);
}
/// NaN is a missing number, and at equal values the derivative is the mean of both, as in Ceres.
template <typename T, int N>
Jet<T, N> fmax(const Jet<T, N>& x, const Jet<T, N>& y) {
  if (isnan(y.a) || isgreater(x.a, y.a)) return x;
  return isnan(x.a) || isless(x.a, y.a) ? y : (x + y) * T(0.5);
}
template <typename T, int N>
Jet<T, N> fmin(const Jet<T, N>& x, const Jet<T, N>& y) {
  if (isnan(y.a) || isless(x.a, y.a)) return x;
  return isnan(x.a) || isgreater(x.a, y.a) ? y : (x + y) * T(0.5);
}
template <typename T, int N>
Jet<T, N> fdim(const Jet<T, N>& x, const Jet<T, N>& y) {
  return isgreater(x.a, y.a) ? x - y : Jet<T, N>(fdim(x.a, y.a));
}

// Functions of a Jet and a number.
#define TG_CERES_MIXED(name)                                             \
  template <typename T, int N>                                           \
  Jet<T, N> name(const Jet<T, N>& x, const std::type_identity_t<T>& y) { \
    return name(x, Jet<T, N>(y));                                        \
  }                                                                      \
  template <typename T, int N>                                           \
  Jet<T, N> name(const std::type_identity_t<T>& x, const Jet<T, N>& y) { \
    return name(Jet<T, N>(x), y);                                        \
  }
TG_CERES_MIXED(fmax)
TG_CERES_MIXED(fmin)
TG_CERES_MIXED(fdim)
TG_CERES_MIXED(atan2)
TG_CERES_MIXED(copysign)
TG_CERES_MIXED(hypot)
#undef TG_CERES_MIXED

/// a + t (b - a).
template <typename T, int N>
Jet<T, N> lerp(const Jet<T, N>& a, const Jet<T, N>& b, const Jet<T, N>& t) {
  return Jet<T, N>(lerp(a.a, b.a, t.a), (T(1) - t.a) * a.v + t.a * b.v + (b.a - a.a) * t.v);
}
/// (a + b) / 2, which does not overflow.
template <typename T, int N>
Jet<T, N> midpoint(const Jet<T, N>& a, const Jet<T, N>& b) {
  return Jet<T, N>(midpoint(a.a, b.a), T(0.5) * a.v + T(0.5) * b.v);
}

/// base to a constant power; the derivative of x^0 is 0, also at 0.
template <typename T, int N>
Jet<T, N> pow(const Jet<T, N>& base, const std::type_identity_t<T>& exponent) {
  if (exponent == T(0)) return Jet<T, N>(T(1));
  return internal::Chain(T(pow(base.a, exponent)), T(exponent * pow(base.a, exponent - T(1))),
                         base);
}
template <typename T, int N>
Jet<T, N> pow(const std::type_identity_t<T>& base, const Jet<T, N>& exponent) {
  const T value = pow(base, exponent.a);
  // 0^y is 0 around every y > 0.
  if (base == T(0) && exponent.a > T(0)) return Jet<T, N>(value);
  Jet<T, N> result = internal::Chain(value, T(value * log(base)), exponent);
  // A negative base has real values at integers alone: there is a derivative in directions in which
  // the exponent does not change.
  if (base < T(0) && isfinite(value)) {
    for (int k = 0; k < N; ++k)
      if (exponent.v[k] == T(0)) result.v[k] = T(0);
  }
  return result;
}
/// If the exponent has no derivatives, its term is omitted, so that (-2)^3 is differentiable by its
/// base.
template <typename T, int N>
Jet<T, N> pow(const Jet<T, N>& base, const Jet<T, N>& exponent) {
  Jet<T, N> result = pow(base, exponent.a);
  bool varies = false;
  for (int k = 0; k < N; ++k) varies = varies || !(exponent.v[k] == T(0));
  if (varies) result.v += pow(base.a, exponent).v;
  return result;
}

// Bessel functions of the first kind, with J'ₙ = (Jₙ₋₁ - Jₙ₊₁) / 2.
inline double BesselJ0(double x) { return j0(x); }
inline double BesselJ1(double x) { return j1(x); }
inline double BesselJn(int n, double x) { return jn(n, x); }
template <typename T, int N>
Jet<T, N> BesselJ0(const Jet<T, N>& x) {
  return internal::Chain(T(BesselJ0(x.a)), T(-BesselJ1(x.a)), x);
}
template <typename T, int N>
Jet<T, N> BesselJ1(const Jet<T, N>& x) {
  return internal::Chain(T(BesselJ1(x.a)), T((BesselJ0(x.a) - BesselJn(2, x.a)) * T(0.5)), x);
}
template <typename T, int N>
Jet<T, N> BesselJn(int n, const Jet<T, N>& x) {
  return internal::Chain(T(BesselJn(n, x.a)),
                         T((BesselJn(n - 1, x.a) - BesselJn(n + 1, x.a)) * T(0.5)), x);
}

// Classification uses only the value.
#define TG_CERES_CLASSIFY(name, Result) \
  template <typename T, int N>          \
  Result name(const Jet<T, N>& x) {     \
    return name(x.a);                   \
  }
TG_CERES_CLASSIFY(isfinite, bool)
TG_CERES_CLASSIFY(isinf, bool)
TG_CERES_CLASSIFY(isnan, bool)
TG_CERES_CLASSIFY(isnormal, bool)
TG_CERES_CLASSIFY(signbit, bool)
TG_CERES_CLASSIFY(fpclassify, int)
#undef TG_CERES_CLASSIFY
#define TG_CERES_COMPARE(name)                                      \
  template <typename T, int N>                                      \
  bool name(const Jet<T, N>& x, const Jet<T, N>& y) {               \
    return name(x.a, y.a);                                          \
  }                                                                 \
  template <typename T, int N>                                      \
  bool name(const Jet<T, N>& x, const std::type_identity_t<T>& y) { \
    return name(x.a, y);                                            \
  }                                                                 \
  template <typename T, int N>                                      \
  bool name(const std::type_identity_t<T>& x, const Jet<T, N>& y) { \
    return name(x, y.a);                                            \
  }                                                                 \
  template <typename T, int M, int N>                               \
  bool name(const Jet<Jet<T, M>, N>& x, double y) {                 \
    return name(x.a, y);                                            \
  }                                                                 \
  template <typename T, int M, int N>                               \
  bool name(double x, const Jet<Jet<T, M>, N>& y) {                 \
    return name(x, y.a);                                            \
  }
TG_CERES_COMPARE(isgreater)
TG_CERES_COMPARE(isgreaterequal)
TG_CERES_COMPARE(isless)
TG_CERES_COMPARE(islessequal)
TG_CERES_COMPARE(islessgreater)
TG_CERES_COMPARE(isunordered)
#undef TG_CERES_COMPARE
template <typename T>
auto IsFinite(const T& x) {
  return isfinite(x);
}
template <typename T>
auto IsInfinite(const T& x) {
  return isinf(x);
}
template <typename T>
auto IsNaN(const T& x) {
  return isnan(x);
}
template <typename T>
auto IsNormal(const T& x) {
  return isnormal(x);
}

}  // namespace ceres

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
