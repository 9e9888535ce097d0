// Functions of one to three Values, one for each op of ir/ops.def, which has domains and kinks.
#pragma once

#include "std_functions.hpp"
#include "value.hpp"

namespace topograd {

#define TG_FUNCTION(function, op) \
  inline Value function(const Value& a) { return Value::make(ir::Op::op, a); }
TG_FUNCTION(square, Square)
TG_FUNCTION(cube, Cube)
TG_FUNCTION(reciprocal, Reciprocal)
TG_FUNCTION(sqrt, Sqrt)
TG_FUNCTION(rsqrt, Rsqrt)
TG_FUNCTION(cbrt, Cbrt)
TG_FUNCTION(exp, Exp)
TG_FUNCTION(exp2, Exp2)
TG_FUNCTION(expm1, Expm1)
TG_FUNCTION(log, Log)
TG_FUNCTION(log2, Log2)
TG_FUNCTION(log10, Log10)
TG_FUNCTION(log1p, Log1p)
TG_FUNCTION(sin, Sin)
TG_FUNCTION(cos, Cos)
TG_FUNCTION(tan, Tan)
TG_FUNCTION(asin, Asin)
TG_FUNCTION(acos, Acos)
TG_FUNCTION(atan, Atan)
TG_FUNCTION(sinh, Sinh)
TG_FUNCTION(cosh, Cosh)
TG_FUNCTION(tanh, Tanh)
TG_FUNCTION(asinh, Asinh)
TG_FUNCTION(acosh, Acosh)
TG_FUNCTION(atanh, Atanh)
TG_FUNCTION(erf, Erf)
TG_FUNCTION(abs, Abs)
TG_FUNCTION(fabs, Abs)
TG_FUNCTION(sign, Sign)
TG_FUNCTION(floor, Floor)
TG_FUNCTION(ceil, Ceil)
TG_FUNCTION(round, Round)
TG_FUNCTION(trunc, Trunc)
TG_FUNCTION(fract, Fract)
TG_FUNCTION(normal_cdf, NormalCdf)
TG_FUNCTION(relu, Relu)
TG_FUNCTION(gelu, Gelu)
TG_FUNCTION(sigmoid, Sigmoid)
TG_FUNCTION(softplus, Softplus)
TG_FUNCTION(silu, Silu)
#undef TG_FUNCTION

#define TG_FUNCTION(function, op) \
  inline Value function(const Value& a, const Value& b) { return Value::make(ir::Op::op, a, b); }
TG_FUNCTION(atan2, Atan2)
TG_FUNCTION(hypot, Hypot)
TG_FUNCTION(mod, Mod)
TG_FUNCTION(min, Min)
TG_FUNCTION(max, Max)
TG_FUNCTION(step, Step)
TG_FUNCTION(leaky_relu, LeakyRelu)
TG_FUNCTION(elu, Elu)
#undef TG_FUNCTION

#define TG_FUNCTION(function, op)                                         \
  inline Value function(const Value& a, const Value& b, const Value& c) { \
    return Value::make(ir::Op::op, a, b, c);                              \
  }
TG_FUNCTION(fma, Fma)
TG_FUNCTION(clamp, Clamp)
TG_FUNCTION(smoothstep, Smoothstep)
TG_FUNCTION(mix, Mix)
#undef TG_FUNCTION

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

}  // namespace topograd
