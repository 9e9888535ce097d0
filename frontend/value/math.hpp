// Functions of one to three Values, one for each op of ir/ops.def, which has domains and kinks;
// functions.def lists them.
#pragma once

#include "std_functions.hpp"
#include "value.hpp"

#include <numbers>

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
