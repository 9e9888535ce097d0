// Expansion of composite ops into primitive ones, in the steps of the evaluator. Each node is made
// by its own statement: the order in which operands of one call are made is up to the compiler.
#include "passes.hpp"
#include "rewrite.hpp"

namespace topograd::ir {
namespace {

struct Operands {
  Id a = 0, b = 0, c = 0;
};

Id clamp(Graph& g, Id x, Id low, Id high) { return g.add(Op::Min, g.add(Op::Max, x, low), high); }

// Functions that are smooth at 0 choose one of two equal formulas with selects: abs and max would
// have kinks that cancel in values and first derivatives only.

// a f(a) for a distribution function f with f(-a) = 1 - f(a), which is 0 below -end. Only the lower
// tail is evaluated: f has all its digits there, and infinite operands are not multiplied by zero.
Id gated(Graph& g, Id a, double end, Op distribution) {
  const Id positive = g.add(Op::Gt, a, g.literal(0));
  const Id below = g.add(Op::Select, positive, g.add(Op::Neg, a), a);
  const Id tail = g.add(distribution, below);
  const Id product = g.add(Op::Mul, g.add(Op::Max, below, g.literal(-end)), tail);
  return g.add(Op::Add, g.add(Op::Select, positive, a, g.literal(-0.0)), product);
}

// `below` if a <= 0, else a (also for NaN).
Id rectified(Graph& g, Id a, Id below) {
  return g.add(Op::Select, g.add(Op::Le, a, g.literal(0)), below, a);
}

// A composite op without a specialisation below does not compile.
template <Op op>
Id expanded(Graph& g, Operands x) {
  static_assert(!info(op).composite, "a composite op needs an expansion");
  return g.add(op, x.a, x.b, x.c);
}

template <>
Id expanded<Op::Fract>(Graph& g, Operands x) {
  return g.add(Op::Sub, x.a, g.add(Op::Floor, x.a));
}

template <>
Id expanded<Op::Clamp>(Graph& g, Operands x) {
  return clamp(g, x.a, x.b, x.c);
}

template <>
Id expanded<Op::Step>(Graph& g, Operands x) {
  const Id one = g.literal(1), zero = g.literal(0);
  return g.add(Op::Select, g.add(Op::Lt, x.b, x.a), zero, one);
}

template <>
Id expanded<Op::Smoothstep>(Graph& g, Operands x) {
  const Id range = g.add(Op::Sub, x.b, x.a);
  const Id ratio = g.add(Op::Div, g.add(Op::Sub, x.c, x.a), range);
  const Id one = g.literal(1), zero = g.literal(0);
  const Id t = clamp(g, ratio, zero, one);
  const Id twice = g.add(Op::Mul, g.literal(2), t);
  const Id falling = g.add(Op::Sub, g.literal(3), twice);
  return g.add(Op::Mul, t, g.add(Op::Mul, t, falling));
}

template <>
Id expanded<Op::Mix>(Graph& g, Operands x) {
  const Id first = g.add(Op::Mul, x.a, g.add(Op::Sub, g.literal(1), x.c));
  return g.add(Op::Add, first, g.add(Op::Mul, x.b, x.c));
}

template <>
Id expanded<Op::Relu>(Graph& g, Operands x) {
  return rectified(g, x.a, g.literal(0));
}

template <>
Id expanded<Op::LeakyRelu>(Graph& g, Operands x) {
  return rectified(g, x.a, g.add(Op::Mul, x.b, x.a));
}

template <>
Id expanded<Op::Elu>(Graph& g, Operands x) {
  return rectified(g, x.a, g.add(Op::Mul, x.b, g.add(Op::Expm1, x.a)));
}

template <>
Id expanded<Op::Gelu>(Graph& g, Operands x) {
  return gated(g, x.a, 100, Op::NormalCdf);
}

template <>
Id expanded<Op::Softplus>(Graph& g, Operands x) {
  const Id zero = g.literal(0), positive = g.add(Op::Gt, x.a, zero);
  const Id below = g.add(Op::Select, positive, g.add(Op::Neg, x.a), x.a);
  const Id rest = g.add(Op::Log1p, g.add(Op::Exp, below));
  return g.add(Op::Add, g.add(Op::Select, positive, x.a, zero), rest);
}

template <>
Id expanded<Op::Silu>(Graph& g, Operands x) {
  return gated(g, x.a, 1000, Op::Sigmoid);
}

Id expand_node(Graph& g, const Node& node) {
  if (is_leaf(node.op)) return g.intern(node);
  const Operands x = {node.args[0], node.args[1], node.args[2]};
  switch (node.op) {
#define TG_OP(id, ...) \
  case Op::id:         \
    return expanded<Op::id>(g, x);
#include "../ops.def"
#undef TG_OP
  }
  return kNone;
}

}  // namespace

Program expand(const Program& program) { return rewrite(program, "expand", expand_node); }

}  // namespace topograd::ir
