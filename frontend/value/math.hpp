// Functions of one to three Values, one for each op of ir/ops.def, which has domains and kinks;
// functions.def lists them.
#pragma once

#include "value.hpp"

#include <concepts>
#include <numbers>
#include <type_traits>

namespace topograd {

#define TG_FUNCTION1(function, op) \
  inline Value function(const Value& a) { return Value::make(ir::Op::op, a); }
#define TG_FUNCTION2(function, op) \
  inline Value function(const Value& a, const Value& b) { return Value::make(ir::Op::op, a, b); }
#define TG_FUNCTION3(function, op)                                        \
  inline Value function(const Value& a, const Value& b, const Value& c) { \
    return Value::make(ir::Op::op, a, b, c);                              \
  }
#include "functions.def"

/// base to an integer power that is part of the structure.
///
/// Up to |exponent| = 64 it is written with squares and products, and with their reciprocal for a
/// negative exponent; beyond 64 it is the pow op with a literal exponent. pow(x, 0) is literal 1.
Value pow(const Value& base, int exponent);

/// base to a power given as a number.
///
/// Integers and half-integers are part of the structure: integers as above; k + 1/2 is the k-th
/// power times sqrt(base), so that a negative base gives NaN. Every other exponent is data.
Value pow(const Value& base, double exponent);

/// base to the power of an expression; a negative base with a non-integer exponent gives NaN.
inline Value pow(const Value& base, const Value& exponent) {
  return Value::make(ir::Op::Pow, base, exponent);
}
inline Value pow(double base, const Value& exponent) { return pow(Value(base), exponent); }

/// 1 - erf(a), by the normal distribution, so that its relative error is small in the tail, too.
inline Value erfc(const Value& a) { return normal_cdf(a * -std::numbers::sqrt2) * 2.0; }

}  // namespace topograd

// Compile errors for the standard library's functions of Values: the compiler's own error is a page
// of candidates that do not fit.
namespace topograd::detail {

/// A class that converts to Value.
template <class T>
concept ValueLike = std::is_class_v<T> && std::convertible_to<const T&, Value>;

template <class V>
V refuse_std() {
  static_assert(!std::is_class_v<V>,
                "functions of namespace std take numbers, not a topograd::Value: write sqrt(x) for "
                "std::sqrt(x), and so for the others");
  return {};
}

}  // namespace topograd::detail

// A call std::sqrt(x) finds only declarations in namespace std.
namespace std {

#define TG_REFUSE(function)                               \
  template <topograd::detail::ValueLike V, class... More> \
  V function(const V&, const More&...) {                  \
    return topograd::detail::refuse_std<V>();             \
  }
TG_REFUSE(sqrt)
TG_REFUSE(cbrt)
TG_REFUSE(exp)
TG_REFUSE(exp2)
TG_REFUSE(expm1)
TG_REFUSE(log)
TG_REFUSE(log2)
TG_REFUSE(log10)
TG_REFUSE(log1p)
TG_REFUSE(sin)
TG_REFUSE(cos)
TG_REFUSE(tan)
TG_REFUSE(asin)
TG_REFUSE(acos)
TG_REFUSE(atan)
TG_REFUSE(atan2)
TG_REFUSE(sinh)
TG_REFUSE(cosh)
TG_REFUSE(tanh)
TG_REFUSE(asinh)
TG_REFUSE(acosh)
TG_REFUSE(atanh)
TG_REFUSE(erf)
TG_REFUSE(erfc)
TG_REFUSE(abs)
TG_REFUSE(fabs)
TG_REFUSE(floor)
TG_REFUSE(ceil)
TG_REFUSE(round)
TG_REFUSE(trunc)
TG_REFUSE(pow)
TG_REFUSE(hypot)
TG_REFUSE(fma)
#undef TG_REFUSE

/// A number to the power of a Value.
template <class Number, topograd::detail::ValueLike V>
requires is_arithmetic_v<Number> V pow(Number, const V&) {
  return topograd::detail::refuse_std<V>();
}

}  // namespace std
