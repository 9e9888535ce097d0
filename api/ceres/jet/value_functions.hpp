// Functions of Values that user code expects of a Ceres scalar.
#pragma once

#include "../../../frontend/eigen.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../frontend/value/value.hpp"
#include "jet.hpp"

#include <limits>

namespace topograd {

// In the namespace of Value for unqualified calls. fmin and fmax treat NaN as min and max do.
inline Value fmin(const Value& a, const Value& b) { return min(a, b); }
inline Value fmax(const Value& a, const Value& b) { return max(a, b); }
inline Value fdim(const Value& a, const Value& b) { return max(a - b, literal(0)); }
/// The square, as for every Ceres scalar.
inline Value norm(const Value& a) { return square(a); }
inline Value lerp(const Value& a, const Value& b, const Value& t) { return a + t * (b - a); }
inline Value midpoint(const Value& a, const Value& b) {
  return literal(0.5) * a + literal(0.5) * b;
}
inline Value hypot(const Value& a, const Value& b, const Value& c) { return hypot(hypot(a, b), c); }
/// `magnitude` with the sign of `sign`; a zero counts as positive.
inline Value copysign(const Value& magnitude, const Value& sign) {
  return select(sign < literal(0), -abs(magnitude), abs(magnitude));
}
inline Bool isnan(const Value& a) { return a != a; }
inline Bool isfinite(const Value& a) {
  return abs(a) <= literal(std::numeric_limits<double>::max());
}
inline Bool isinf(const Value& a) { return abs(a) > literal(std::numeric_limits<double>::max()); }

}  // namespace topograd

namespace ceres {

using topograd::abs;
using topograd::acos;
using topograd::acosh;
using topograd::asin;
using topograd::asinh;
using topograd::atan;
using topograd::atan2;
using topograd::atanh;
using topograd::cbrt;
using topograd::ceil;
using topograd::copysign;
using topograd::cos;
using topograd::cosh;
using topograd::erf;
using topograd::erfc;
using topograd::exp;
using topograd::exp2;
using topograd::expm1;
using topograd::fabs;
using topograd::fdim;
using topograd::floor;
using topograd::fma;
using topograd::fmax;
using topograd::fmin;
using topograd::hypot;
using topograd::isfinite;
using topograd::isinf;
using topograd::isnan;
using topograd::lerp;
using topograd::log;
using topograd::log10;
using topograd::log1p;
using topograd::log2;
using topograd::midpoint;
using topograd::norm;
using topograd::pow;
using topograd::sin;
using topograd::sinh;
using topograd::sqrt;
using topograd::tan;
using topograd::tanh;

namespace internal {

/// A constant of a function: a number for numbers and Jets, and part of the structure for Values.
template <class T>
T Constant(double number) {
  return T(number);
}
template <>
inline topograd::Value Constant<topograd::Value>(double number) {
  return topograd::literal(number);
}

/// One of two arrays of scalars. A known truth value selects one side; for a truth value of an
/// expression, both sides become part of it.
template <class Taken, class Otherwise>
auto Choose(bool condition, const Taken& taken, const Otherwise& otherwise) {
  return condition ? taken() : otherwise();
}
template <class Taken, class Otherwise>
auto Choose(const topograd::Bool& condition, const Taken& taken, const Otherwise& otherwise) {
  auto result = taken();
  const auto other = otherwise();
  for (std::size_t k = 0; k < result.size(); ++k)
    result[k] = topograd::select(condition, result[k], other[k]);
  return result;
}

}  // namespace internal
}  // namespace ceres
