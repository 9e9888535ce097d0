// Traits of values, extraction of programs from growing graphs, and derivative rules, op by op.
#include "rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "../ir/error.hpp"
#include "../ir/passes/passes.hpp"

namespace topograd::autodiff {
namespace {

using ir::Away;
using ir::FactRule;
using ir::Growth;
using ir::Op;

Grade worst(std::span<const Traits> operands, Grade at_least) {
  for (const Traits& t : operands) at_least = std::max(at_least, t.grade);
  return at_least;
}

// Bounded functions map NaN to NaN, but infinite operands to finite numbers.
Grade bounded(std::span<const Traits> operands) {
  return worst(operands, Grade::Tame) == Grade::Tame ? Grade::Tame : Grade::Plain;
}

Grade product(const Traits& a, const Traits& b) {
  if (a.grade == Grade::Constant) return std::max(b.grade, Grade::Tame);
  if (b.grade == Grade::Constant) return std::max(a.grade, Grade::Tame);
  return std::max({a.grade, b.grade, Grade::Plain});
}

Grade quotient(Grade numerator, const Traits& denominator) {
  return denominator.away ? std::max(numerator, Grade::Plain) : Grade::Wild;
}

Traits literal(double value) {
  return {.grade = std::isfinite(value) ? Grade::Constant : Grade::Wild,
          .masked = value == 0,
          .nonnegative = value >= 0,
          .away = value != 0 && !std::isnan(value)};
}

Grade grade_of(Op op, std::span<const Traits> t) {
  switch (ir::info(op).growth) {
    case Growth::affine: return worst(t, Grade::Tame);
    case Growth::smooth: return worst(t, Grade::Plain);
    case Growth::bounded: return bounded(t);
    case Growth::in_domain: return Grade::Plain;
    case Growth::product: return product(t[0], t[1]);
    case Growth::quotient: return quotient(t[0].grade, t[1]);
    case Growth::reciprocal: return quotient(Grade::Plain, t[0]);
    case Growth::power:
      // A power with a positive constant exponent has no pole.
      return t[1].grade == Grade::Constant && t[1].nonnegative ? worst(t, Grade::Plain)
                                                               : Grade::Wild;
    case Growth::choice: return worst(t.subspan(1), Grade::Tame);
    case Growth::truth: return Grade::Tame;
    case Growth::wild: return Grade::Wild;
  }
  return Grade::Wild;
}

// True if the value may be exactly zero because of a choice or a comparison.
bool is_mask(Op op, std::span<const Traits> t) {
  const ir::OpInfo& row = ir::info(op);
  if (row.boolean || (row.masked_by & ir::kAlways) != 0) return true;
  for (std::size_t k = 0; k < t.size(); ++k) {
    if ((row.masked_by >> k & 1) != 0 && t[k].masked) return true;
  }
  return false;
}

bool is_nonnegative(Op op, std::span<const Traits> t) {
  switch (ir::info(op).facts) {
    case FactRule::clear:
    case FactRule::magnitude:
    case FactRule::root: return true;
    case FactRule::sum:
    case FactRule::product:
    case FactRule::minimum: return std::ranges::all_of(t, &Traits::nonnegative);
    case FactRule::maximum: return std::ranges::any_of(t, &Traits::nonnegative);
    case FactRule::none: return ir::info(op).boolean;
    case FactRule::whole:
    case FactRule::negation:
    case FactRule::odd:
    case FactRule::difference:
    case FactRule::choice: return false;
  }
  return false;
}

bool is_away(Op op, std::span<const Traits> t) {
  const auto is_positive = [](const Traits& x) { return x.nonnegative && x.away; };
  if (ir::info(op).facts == FactRule::maximum) return std::ranges::any_of(t, is_positive);
  switch (ir::info(op).away) {
    case Away::unknown: return false;
    case Away::always: return true;
    case Away::first: return t[0].away;
    case Away::sum: return t[0].nonnegative && t[1].nonnegative && (t[0].away || t[1].away);
  }
  return false;
}

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
Partial steep(Expr d) { return {Kind::Steep, d}; }
Partial unless_at(Expr at, Expr d) { return {Kind::Guarded, d, at}; }
Partial twice(Expr d) { return {Kind::Twice, d}; }
Partial mask(Expr d) { return {Kind::Mask, d}; }
Partial where(Expr condition) { return {Kind::WhereTrue, condition}; }
Partial unless(Expr condition) { return {Kind::WhereFalse, condition}; }
// The operands of min and max: the first one is chosen where `first` is true and a != b.
Partials chosen(Expr first, Expr a, Expr b) {
  const Expr tie = a == b;
  return {Partial{Kind::Above, first, tie}, Partial{Kind::Below, first, tie}};
}

// d/db of a / b from the quotient y; shares 1 / b with d/da.
Expr quotient_by_denominator(Expr b, Expr y) { return -(y * reciprocal(b)); }

Partials composite(Op op) {
  throw Error(ErrorCode::Internal, "differentiate: composite op " + std::string(ir::info(op).name) +
                                       " was not expanded");
}

// d sqrt(a). Where `a` cannot be negative, a = 0 is its least value and the chain of derivatives
// through it is 0.
Partial of_root(Expr a, Expr y) {
  const Expr d = 0.5 / y;
  const bool guarded = a.traits().nonnegative && !y.traits().away;
  return guarded ? unless_at(y == y.literal(0), d) : steep(d);
}

// The derivatives of atan2 are quotients by the squared distance r², which may leave the range.
Partials of_angle(Expr a, Expr b) {
  const Expr r = a.make(Op::Hypot, b), zero = r.literal(0), origin = r == zero;
  return {times(select(origin, zero, b / r / r)), times(select(origin, zero, -a / r / r))};
}

// d/dx of x^n is infinite at 0 for n between 0 and 1, where the power is 0.
bool is_steep_power(Expr n) {
  const ir::Node exponent = n.builder->graph()[n.id];
  return exponent.op != Op::Literal || (exponent.literal() > 0 && exponent.literal() < 1);
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

Traits infer(const ir::Node& node, std::span<const Traits> operands) {
  if (node.op == Op::Literal) return literal(node.literal());
  return {.grade = grade_of(node.op, operands),
          .masked = is_mask(node.op, operands),
          .nonnegative = is_nonnegative(node.op, operands),
          .away = is_away(node.op, operands)};
}

Builder::Builder(const ir::Program& f) : guards_(f.guards), leaves_(f.leaves) {
  const std::vector<ir::Id> map = ir::append(graph_, f);
  size_ = static_cast<ir::Id>(graph_.size());
  for (ir::Id id : f.outputs) outputs_.push_back(map[id]);
  for (ir::Guard& guard : guards_) guard.condition = map[guard.condition];
}

const Traits& Builder::traits(ir::Id id) {
  while (traits_.size() < graph_.size()) {
    const ir::Node& node = graph_[static_cast<ir::Id>(traits_.size())];
    std::array<Traits, 3> operands;
    const std::span<const ir::Id> ids = node.operands();
    for (std::size_t k = 0; k < ids.size(); ++k) operands[k] = traits_[ids[k]];
    traits_.push_back(infer(node, std::span(operands).first(ids.size())));
  }
  return traits_[id];
}

ir::Program Builder::extract(std::span<const ir::Id> outputs, const ir::LeafCounts& leaves) {
  std::vector<ir::Id> ids(outputs.begin(), outputs.end());
  for (ir::Id& id : ids) {
    if (id == ir::kNone) id = graph_.literal(0);
  }
  return ir::optimize(graph_.extract(ids, leaves, guards_));
}

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
    case Op::Pow: {
      const Expr by_base = power_by_base(a, b);
      return {is_steep_power(b) ? steep(by_base) : times(by_base), times(zmul(y, log(a)))};
    }
    case Op::Sqrt: return {of_root(a, y)};
    case Op::Rsqrt: return {times(-0.5 * y.make(Op::Cube))};
    case Op::Cbrt: return {steep(reciprocal(3.0 * square(y)))};
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
    case Op::Asin: return {steep(rsqrt((1.0 - a) * (1.0 + a)))};
    case Op::Acos: return {steep(-rsqrt((1.0 - a) * (1.0 + a)))};
    case Op::Atan: return {times(reciprocal(1.0 + square(a)))};
    case Op::Atan2: return of_angle(a, b);
    case Op::Sinh: return {times(cosh(a))};
    case Op::Cosh: return {times(sinh(a))};
    case Op::Tanh:
      return {times(reciprocal(square(cosh(a))))};  // 1 - y^2 would cancel if y is near 1
    case Op::Asinh: return {times(reciprocal(a.literal(1).make(Op::Hypot, a)))};
    case Op::Acosh: return {steep(rsqrt(a - 1.0) * rsqrt(a + 1.0))};  // a² may leave the range
    case Op::Atanh: return {times(reciprocal((1.0 - a) * (1.0 + a)))};
    case Op::Erf: return {times(kTwoOverSqrtPi * exp(-square(a)))};
    case Op::Abs: return {mask(sign(a))};
    case Op::Sign:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc: return {};
    case Op::Mod: return {kOne, times(-floor(a / b))};
    case Op::Min: return chosen(a < b, a, b);
    case Op::Max: return chosen(a > b, a, b);
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

// v * d, or 0 if either is 0. Each side is a Zmul, whose derivative at 0 is that of the product; a
// literal 0 there would have none.
Expr product_or_zero(Expr v, Expr d) { return select(d == d.literal(0), zmul(d, v), zmul(v, d)); }

// v * d; a zero d counts as a choice.
Expr masked_product(Expr v, Expr d) {
  if (d.traits().grade == Grade::Wild) return product_or_zero(v, d);
  return v.traits().grade <= Grade::Tame ? v * d : zmul(d, v);
}

// v * d for a d that is finite unless a branch hides it.
Expr finite_product(Expr v, Expr d) {
  if (v.is_literal(1)) return d;
  return v.traits().masked ? zmul(v, d) : v * d;
}

// v * d in reverse mode.
Expr adjoint_product(Expr v, Expr d) {
  const Traits tv = v.traits(), td = d.traits();
  if (v.is_literal(1)) return d;
  if (d.is_literal(1)) return v;
  if (v.builder->is_steep(v.id) && td.grade != Grade::Constant && !td.away)
    return td.grade == Grade::Wild ? product_or_zero(v, d) : zmul(d, v);
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
    case Kind::Factor:
    case Kind::Steep: return product(v, partial.d);
    case Kind::Guarded: return select(partial.at, v.literal(0), finite_product(v, partial.d));
    case Kind::Twice: {
      const Expr twice = v + v;
      if (v.builder->is_steep(v.id)) v.builder->mark_steep(twice.id);
      return product(twice, partial.d);
    }
    case Kind::Mask: return masked_product(v, partial.d);
    case Kind::WhereTrue: return select(partial.d, v, v.literal(0));
    case Kind::WhereFalse: return select(partial.d, v.literal(0), v);
    case Kind::Above: return select(partial.at, 0.5 * v, select(partial.d, v, v.literal(0)));
    case Kind::Below: return select(partial.at, 0.5 * v, select(partial.d, v.literal(0), v));
  }
  return {};
}

}  // namespace

Expr pull(const Partial& partial, Expr g) {
  const Expr out = carry(partial, g, adjoint_product);
  if (out.id == ir::kNone) return out;
  const bool steep = partial.kind == Kind::Steep && partial.d.traits().grade == Grade::Wild;
  if (steep || g.builder->is_steep(g.id)) g.builder->mark_steep(out.id);
  return out;
}
Expr push(const Partial& partial, Expr t) { return carry(partial, t, tangent_product); }

}  // namespace topograd::autodiff
