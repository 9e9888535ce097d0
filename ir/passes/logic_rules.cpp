// Rules of signs, rounding, order, logic and selection; rules.hpp states their contract.
#include "logic_rules.hpp"

#include <limits>

namespace topograd::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Answer LogicRules::abs(Id a) {
  if (facts_[a].sign_clear) return same(a);
  if (is(a, Op::Neg)) return again(Op::Abs, operand(a));
  return keep();
}

Answer LogicRules::sign(Id a) {
  // The sign of -1, -0, 0 and 1 is the number itself.
  if (is(a, Op::Sign) || facts_[a].boolean) return same(a);
  return keep();
}

Answer LogicRules::to_integer(Id a) {
  if (facts_[a].integral) return same(a);
  return keep();
}

Answer LogicRules::min(Id a, Id b) {
  if (a == b || is_literal(b, kInfinity)) return same(a);
  if (is_literal(a, kInfinity)) return same(b);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    // Idempotent; a NaN of either operand propagates both ways.
    if (is(x, Op::Min) && (operand(x) == y || operand(x, 1) == y)) return same(x);
  }
  return keep();
}

Answer LogicRules::max(Id a, Id b) {
  if (a == b || is_literal(b, -kInfinity)) return same(a);
  if (is_literal(a, -kInfinity)) return same(b);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (is(x, Op::Max) && (operand(x) == y || operand(x, 1) == y)) return same(x);
  }
  return keep();
}

Answer LogicRules::equal(const Node& node) {
  const auto scaled = literal_operand(node.args[0], node.args[1]);
  if (!scaled || !facts_[scaled->other].boolean) return keep();
  const bool to_zero = scaled->factor == 0, to_one = scaled->factor == 1;
  if (!to_zero && !to_one) return keep();
  const bool itself = to_one == (node.op == Op::Eq);
  return itself ? same(scaled->other) : again(Op::Not, scaled->other);
}

Answer LogicRules::strictly_ordered(Id a, Id b) {
  // Nothing is less or greater than itself, NaN included. x <= x is not folded, as it is false for
  // NaN.
  if (a == b) return number(0);
  return keep();
}

// a as 1 or 0: the value of and(a, true), for example.
Answer LogicRules::truth_of(Id a) {
  if (facts_[a].boolean) return same(a);
  return again(Op::Ne, a, graph_.literal(0));
}

Answer LogicRules::logical_and(Id a, Id b) {
  if (a == b) return truth_of(a);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    const auto known = known_truth(graph_[y]);
    if (known) return *known ? truth_of(x) : number(0);
  }
  return keep();
}

Answer LogicRules::logical_or(Id a, Id b) {
  if (a == b) return truth_of(a);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    const auto known = known_truth(graph_[y]);
    if (known) return *known ? number(1) : truth_of(x);
  }
  return keep();
}

Answer LogicRules::logical_not(Id a) {
  if (is(a, Op::Not)) return truth_of(operand(a));
  // Equality and inequality are opposites for NaN too; the ordered comparisons are not.
  if (is(a, Op::Eq)) return again(Op::Ne, operand(a), operand(a, 1));
  if (is(a, Op::Ne)) return again(Op::Eq, operand(a), operand(a, 1));
  return keep();
}

// The root of +0 is +0: select(s == 0, 0, sqrt(s)) for an s whose sign bit is clear.
bool LogicRules::is_guarded_root(Id comparison, Id at_zero, Id root) {
  if (!is_literal(at_zero, 0.0) || !is(root, Op::Sqrt)) return false;
  const auto compared = literal_operand(operand(comparison), operand(comparison, 1));
  return compared && compared->factor == 0 && compared->other == operand(root) &&
         facts_[compared->other].sign_clear;
}

Answer LogicRules::select(Id condition, Id a, Id b) {
  if (a == b) return same(a);
  if (const auto known = known_truth(graph_[condition])) return same(*known ? a : b);
  if (is(condition, Op::Not)) return again(Op::Select, operand(condition), b, a);
  // The outer condition decides the inner selection.
  if (is(a, Op::Select) && operand(a) == condition) {
    return again(Op::Select, condition, operand(a, 1), b);
  }
  if (is(b, Op::Select) && operand(b) == condition) {
    return again(Op::Select, condition, a, operand(b, 2));
  }
  if (is(condition, Op::Eq) && is_guarded_root(condition, a, b)) return same(b);
  if (is(condition, Op::Ne) && is_guarded_root(condition, b, a)) return same(a);
  if (!facts_[condition].boolean) return keep();
  if (is_literal(a, 1) && is_literal(b, 0.0)) return same(condition);
  if (is_literal(a, 0.0) && is_literal(b, 1)) return again(Op::Not, condition);
  return keep();
}

}  // namespace topograd::ir
