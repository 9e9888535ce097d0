// Derivative rules, op by op.
#include "rules.hpp"

#include "../ir/error.hpp"

#include <numbers>
#include <string>

namespace topograd::autodiff {
namespace {

using ir::Op;
using Kind = Partial::Kind;
using Partials = std::array<Partial, 3>;

constexpr double kLn2 = std::numbers::ln2;
constexpr double kLn10 = std::numbers::ln10;
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kInverseSqrtTwoPi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;

const Partial kZero = {};
const Partial kOne = {Kind::One};
const Partial kMinusOne = {Kind::MinusOne};
Partial times(Expr d) { return {Kind::Factor, d}; }
Partial twice(Expr d) { return {Kind::Twice, d}; }
Partial mask(Expr d) { return {Kind::Mask, d}; }
Partial where(Expr condition) { return {Kind::WhereTrue, condition}; }
Partial unless(Expr condition) { return {Kind::WhereFalse, condition}; }

// d/db of a / b from the quotient y; shares 1 / b with d/da.
Expr quotient_by_denominator(Expr b, Expr y) { return -(y * reciprocal(b)); }

Partials composite(Op op) {
  throw Error(ErrorCode::Internal, "differentiate: composite op " + std::string(ir::info(op).name) +
                                       " was not expanded");
}

// d/dx of x^n; small whole exponents need no call of pow.
Expr power_by_base(Expr x, Expr n) {
  const ir::Node exponent = n.builder->graph()[n.id];
  if (exponent.op != Op::Literal) return zmul(n, pow(x, n - 1.0));
  const double c = exponent.literal();
  if (c == 0) return n.literal(0);
  if (c == 1) return n.literal(1);
  if (c == 2) return x + x;
  if (c == 3) return 3.0 * square(x);
  return c * pow(x, n.literal(c - 1));
}

}  // namespace

Partials partials(Builder& builder, ir::Id id) {
  const ir::Node n = builder.graph()[id];
  const Expr a{&builder, n.args[0]}, b{&builder, n.args[1]}, y{&builder, id};
  switch (n.op) {
    case Op::Parameter:
    case Op::Data:
    case Op::Uniform:
    case Op::Literal:
    case Op::Tangent:
    case Op::Seed: return {};
    case Op::Add: return {kOne, kOne};
    case Op::Sub: return {kOne, kMinusOne};
    case Op::Mul: return {times(b), times(a)};
    case Op::Div: return {times(reciprocal(b)), times(quotient_by_denominator(b, y))};
    case Op::Neg: return {kMinusOne};
    case Op::Fma: return {times(b), times(a), kOne};
    case Op::Square: return {twice(a)};
    case Op::Cube: return {times(3.0 * square(a))};
    case Op::Reciprocal: return {times(-square(y))};
    case Op::Zmul: return {times(b), mask(a)};
    case Op::Pow: return {times(power_by_base(a, b)), times(zmul(y, log(a)))};
    case Op::Sqrt: return {times(0.5 / y)};
    case Op::Rsqrt: return {times(-0.5 * y.make(Op::Cube))};
    case Op::Cbrt: return {times(reciprocal(3.0 * square(y)))};
    case Op::Hypot: return {times(quotient_or_zero(a, y)), times(quotient_or_zero(b, y))};
    case Op::Exp: return {times(y)};
    case Op::Exp2: return {times(kLn2 * y)};
    case Op::Expm1: return {times(exp(a))};
    case Op::Log: return {times(reciprocal(a))};
    case Op::Log2: return {times(reciprocal(kLn2 * a))};
    case Op::Log10: return {times(reciprocal(kLn10 * a))};
    case Op::Log1p: return {times(reciprocal(1.0 + a))};
    case Op::Sin: return {times(cos(a))};
    case Op::Cos: return {times(-sin(a))};
    case Op::Tan: return {times(1.0 + square(y))};
    case Op::Asin: return {times(rsqrt((1.0 - a) * (1.0 + a)))};
    case Op::Acos: return {times(-rsqrt((1.0 - a) * (1.0 + a)))};
    case Op::Atan: return {times(reciprocal(1.0 + square(a)))};
    case Op::Atan2: {
      const Expr d = square(a) + square(b);
      return {times(quotient_or_zero(b, d)), times(quotient_or_zero(-a, d))};
    }
    case Op::Sinh: return {times(cosh(a))};
    case Op::Cosh: return {times(sinh(a))};
    case Op::Tanh:
      return {times(reciprocal(square(cosh(a))))};  // 1 - y^2 would cancel if y is near 1
    case Op::Asinh: return {times(rsqrt(1.0 + square(a)))};
    case Op::Acosh: return {times(rsqrt((a - 1.0) * (a + 1.0)))};
    case Op::Atanh: return {times(reciprocal((1.0 - a) * (1.0 + a)))};
    case Op::Erf: return {times(kTwoOverSqrtPi * exp(-square(a)))};
    case Op::Abs: return {mask(sign(a))};
    case Op::Sign:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc: return {};
    case Op::Mod: return {kOne, times(-floor(a / b))};
    case Op::Min: return {where(a <= b), unless(a <= b)};
    case Op::Max: return {where(a >= b), unless(a >= b)};
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::And:
    case Op::Or:
    case Op::Not: return {};
    case Op::Select: return {kZero, where(a), unless(a)};
    case Op::Fract:
    case Op::Clamp:
    case Op::Step:
    case Op::Smoothstep:
    case Op::Mix:
    case Op::Relu:
    case Op::LeakyRelu:
    case Op::Elu:
    case Op::Gelu:
    case Op::Softplus:
    case Op::Silu: return composite(n.op);
    case Op::Sigmoid: return {times(y * (-a).make(Op::Sigmoid))};
    case Op::NormalCdf: return {times(kInverseSqrtTwoPi * exp(-0.5 * square(a)))};
  }
  return composite(n.op);
}

namespace {

// v * d, or 0 if either is 0.
Expr product_or_zero(Expr v, Expr d) { return select(v.make(Op::And, d), v * d, v.literal(0)); }

// v * d; a zero d counts as a choice.
Expr masked_product(Expr v, Expr d) {
  if (d.traits().grade == Grade::Wild) return product_or_zero(v, d);
  return v.traits().grade <= Grade::Tame ? v * d : zmul(d, v);
}

// v * d in reverse mode.
Expr adjoint_product(Expr v, Expr d) {
  const Traits tv = v.traits(), td = d.traits();
  if (v.is_literal(1)) return d;
  if (d.is_literal(1)) return v;
  if (tv.grade == Grade::Constant || td.grade <= Grade::Tame) return v * d;
  return td.grade == Grade::Wild || tv.masked ? zmul(v, d) : v * d;
}

// v * d in forward mode.
Expr tangent_product(Expr v, Expr d) {
  const Grade gv = v.traits().grade, gd = d.traits().grade;
  if (v.is_literal(1)) return d;
  if (d.is_literal(1)) return v;
  if (gv == Grade::Constant || gd == Grade::Constant) return v * d;
  if (gv == Grade::Wild && gd == Grade::Wild) return product_or_zero(v, d);
  if (gv == Grade::Wild) return zmul(d, v);
  return gd == Grade::Wild ? zmul(v, d) : v * d;
}

template <class Product>
Expr carry(const Partial& partial, Expr v, Product product) {
  switch (partial.kind) {
    case Kind::Zero: return {};
    case Kind::One: return v;
    case Kind::MinusOne: return -v;
    case Kind::Factor: return product(v, partial.d);
    case Kind::Twice: return product(v + v, partial.d);
    case Kind::Mask: return masked_product(v, partial.d);
    case Kind::WhereTrue: return select(partial.d, v, v.literal(0));
    case Kind::WhereFalse: return select(partial.d, v.literal(0), v);
  }
  return {};
}

}  // namespace

Expr pull(const Partial& partial, Expr g) { return carry(partial, g, adjoint_product); }
Expr push(const Partial& partial, Expr t) { return carry(partial, t, tangent_product); }

}  // namespace topograd::autodiff
