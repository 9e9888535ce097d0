// The algebraic passes, facts about values, and the rules: sums, products, signs, order, selection.
#include "simplify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "passes.hpp"
#include "rewrite.hpp"

namespace topograd::ir {
namespace {

Facts closed(Facts f) {
  if (f.boolean) f.sign_clear = f.integral = true;
  if (f.sign_clear) f.not_negative_zero = true;
  return f;
}

Facts of_literal(double x) {
  // A small negative number is -0 in float.
  const bool zero = static_cast<float>(x) == 0;
  return {.boolean = x == 1 || (x == 0 && !std::signbit(x)),
          .sign_clear = !std::signbit(x),
          .not_negative_zero = !(zero && std::signbit(x)),
          .integral = std::floor(x) == x};
}

Facts both(const Facts& a, const Facts& b) {
  return {a.boolean && b.boolean, a.sign_clear && b.sign_clear,
          a.not_negative_zero && b.not_negative_zero, a.integral && b.integral};
}

Facts of_op(Op op, const Facts& a, const Facts& b, const Facts& c) {
  switch (info(op).facts) {
    case FactRule::none: return {.boolean = info(op).boolean};
    case FactRule::clear: return {.sign_clear = true};
    case FactRule::magnitude: return {.sign_clear = true, .integral = a.integral};
    case FactRule::whole: return {.sign_clear = a.sign_clear, .integral = true};
    case FactRule::negation: return {.integral = a.integral};
    case FactRule::root:
    case FactRule::odd: return {.sign_clear = a.sign_clear};
    // A sum rounded to nearest is -0 only if both terms are: x - x is +0 and nothing underflows.
    case FactRule::sum:
      return {.sign_clear = a.sign_clear && b.sign_clear,
              .not_negative_zero = a.not_negative_zero || b.not_negative_zero};
    case FactRule::difference: return {.not_negative_zero = a.not_negative_zero};
    case FactRule::product:
      return {.sign_clear = a.sign_clear && b.sign_clear && (arity(op) < 3 || c.sign_clear)};
    case FactRule::minimum: return both(a, b);
    case FactRule::maximum: {
      Facts f = both(a, b);
      f.sign_clear = a.sign_clear || b.sign_clear;
      return f;
    }
    case FactRule::choice: return both(b, c);
  }
  return {};
}

// The inverse of a power of two, if it is exact and both are normal floats.
std::optional<double> exact_inverse(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  constexpr int kLargest = std::numeric_limits<float>::max_exponent - 2;
  if (std::fabs(fraction) != 0.5 || std::abs(exponent - 1) > kLargest) return std::nullopt;
  return 1 / x;
}

bool is_finite_float(double x) { return std::isfinite(static_cast<float>(x)); }

// Removes negations from guards, repeated guards, and guards that always hold. A guard that never
// holds stays: it shows that the program fails.
std::vector<Guard> simplify_guards(const Program& program) {
  std::vector<Guard> kept;
  for (Guard guard : program.guards) {
    while (program.nodes[guard.condition].op == Op::Not) {
      guard = {program.nodes[guard.condition].args[0], !guard.expected};
    }
    if (known_truth(program.nodes[guard.condition]) == guard.expected) continue;
    if (std::find(kept.begin(), kept.end(), guard) == kept.end()) kept.push_back(guard);
  }
  return kept;
}

bool is_zero(const Node& node) { return node.op == Op::Literal && node.literal() == 0; }

/// True if the comparison decides whether `d` is 0.
bool compares_with_zero(const Graph& graph, const Node& comparison, Id d) {
  const Id a = comparison.args[0], b = comparison.args[1];
  return (a == d && is_zero(graph[b])) || (b == d && is_zero(graph[a]));
}

/// zmul(d, x), chosen where d is 0, is +0.
bool is_zero_product(const Graph& graph, const Node& comparison, Id chosen) {
  const Node& product = graph[chosen];
  return product.op == Op::Zmul && compares_with_zero(graph, comparison, product.args[0]);
}

Id finished(Graph& graph, const Node& node) {
  if (node.op != Op::Select) return graph.intern(node);
  const Node comparison = graph[node.args[0]];
  Node out = node;
  if (comparison.op == Op::Eq && is_zero_product(graph, comparison, node.args[1]))
    out.args[1] = graph.literal(0);
  if (comparison.op == Op::Ne && is_zero_product(graph, comparison, node.args[2]))
    out.args[2] = graph.literal(0);
  return graph.intern(out);
}

/// Most programs have nothing to leave out, and are not made anew.
bool chooses_products(const Program& program) {
  return std::ranges::any_of(program.nodes, [&](const Node& node) {
    return node.op == Op::Select && (program.nodes[node.args[1]].op == Op::Zmul ||
                                     program.nodes[node.args[2]].op == Op::Zmul);
  });
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<bool> known_truth(const Node& node) {
  if (node.op != Op::Literal) return std::nullopt;
  const bool truth = node.literal() != 0;
  if (truth != (static_cast<float>(node.literal()) != 0)) return std::nullopt;
  return truth;
}

const Facts& FactTable::operator[](Id id) {
  while (facts_.size() <= id) {
    const Node& n = graph_[static_cast<Id>(facts_.size())];
    if (n.op == Op::Literal) {
      facts_.push_back(closed(of_literal(n.literal())));
      continue;
    }
    const int k = arity(n.op);
    const Facts none;
    facts_.push_back(
        closed(of_op(n.op, k > 0 ? facts_[n.args[0]] : none, k > 1 ? facts_[n.args[1]] : none,
                     k > 2 ? facts_[n.args[2]] : none)));
  }
  return facts_[id];
}

Answer ArithmeticRules::add(Id a, Id b) {
  // x + x and 2x are both the nearest number to the exact double of x.
  if (a == b) return again(Op::Mul, graph_.literal(2), a);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    // -0 + -0 is -0 and x + -0 is x; with +0 the sum is +0 where x is -0.
    if (is_literal(y, -0.0)) return same(x);
    if (is_literal(y, 0.0) && facts_[x].not_negative_zero) return same(x);
    // Subtraction is defined as addition of the negated number.
    if (is(y, Op::Neg)) return again(Op::Sub, x, operand(y));
  }
  return keep();
}

Answer ArithmeticRules::sub(Id a, Id b) {
  // -0 - +0 is -0; x - -0 is x + +0.
  if (is_literal(b, 0.0)) return same(a);
  if (is_literal(b, -0.0) && facts_[a].not_negative_zero) return same(a);
  // -0 - +0 is -0, -0 - -0 is +0; +0 - x would be +0 at x = +0.
  if (is_literal(a, -0.0)) return again(Op::Neg, b);
  if (is(b, Op::Neg)) return again(Op::Add, a, operand(b));
  return keep();
}

Answer ArithmeticRules::mul(Id a, Id b) {
  if (a == b) return again(Op::Square, a);
  // Signs of factors multiply, whatever the magnitudes: two negations cancel.
  if (is(a, Op::Neg) && is(b, Op::Neg)) return again(Op::Mul, operand(a), operand(b));
  const auto scaled = literal_operand(a, b);
  if (!scaled) return keep();
  if (scaled->factor == 1) return same(scaled->other);
  if (scaled->factor == -1) return again(Op::Neg, scaled->other);
  if (!is(scaled->other, Op::Neg)) return keep();
  return again(Op::Mul, operand(scaled->other), graph_.literal(-scaled->factor));
}

Answer ArithmeticRules::div(Id a, Id b) {
  if (is(a, Op::Neg) && is(b, Op::Neg)) return again(Op::Div, operand(a), operand(b));
  if (const auto divisor = literal(b)) {
    if (*divisor == 1) return same(a);
    if (*divisor == -1) return again(Op::Neg, a);
    // Quotient and product are the same real number, rounded once.
    if (const auto inverse = exact_inverse(*divisor)) {
      return again(Op::Mul, a, graph_.literal(*inverse));
    }
    if (is(a, Op::Neg)) return again(Op::Div, operand(a), graph_.literal(-*divisor));
  }
  if (const auto dividend = literal(a)) {
    if (*dividend == 1) return again(Op::Reciprocal, b);
    if (is(b, Op::Neg)) return again(Op::Div, graph_.literal(-*dividend), operand(b));
  }
  return keep();
}

Answer ArithmeticRules::neg(Id a) {
  if (is(a, Op::Neg)) return same(operand(a));
  if (is(a, Op::Mul) || is(a, Op::Div)) return neg_of_product(graph_[a]);
  return keep();
}

// -(a b) and -(a / b): rounding to nearest is symmetric, so the sign may be taken from either
// operand.
Answer ArithmeticRules::neg_of_product(const Node& product) {
  const Id a = product.args[0], b = product.args[1];
  const Op op = product.op;
  if (is(a, Op::Neg)) return again(op, operand(a), b);
  if (is(b, Op::Neg)) return again(op, a, operand(b));
  if (const auto x = literal(a)) return again(op, graph_.literal(-*x), b);
  if (const auto y = literal(b)) return again(op, a, graph_.literal(-*y));
  return keep();
}

Answer ArithmeticRules::fma(Id a, Id b, Id c) {
  // The exact product is rounded once; adding -0 keeps the sign of a zero product.
  if (is_literal(c, -0.0)) return again(Op::Mul, a, b);
  if (is(a, Op::Neg) && is(b, Op::Neg)) return again(Op::Fma, operand(a), operand(b), c);
  const auto scaled = literal_operand(a, b);
  if (!scaled) return keep();
  if (scaled->factor == 1) return again(Op::Add, scaled->other, c);
  if (scaled->factor == -1) return again(Op::Sub, c, scaled->other);
  if (!is(scaled->other, Op::Neg)) return keep();
  return again(Op::Fma, operand(scaled->other), graph_.literal(-scaled->factor), c);
}

Answer ArithmeticRules::square(Id a) {
  if (is(a, Op::Neg) || is(a, Op::Abs)) return again(Op::Square, operand(a));
  return keep();
}

Answer ArithmeticRules::zmul(Id a, Id b) {
  // A zero's square is +0 as well.
  if (a == b) return again(Op::Square, a);
  // a is 1 or +0: the product is b, or +0 by definition.
  if (facts_[a].boolean && !is(a, Op::Literal)) {
    return again(Op::Select, a, b, graph_.literal(0));
  }
  if (is(a, Op::Neg) && is(b, Op::Neg)) return again(Op::Zmul, operand(a), operand(b));
  if (const auto first = literal(a)) {
    if (*first == 0) return number(0);
    // The literal is nonzero in float too, so the plain product is the same.
    if (static_cast<float>(*first) != 0) return again(Op::Mul, a, b);
  }
  if (const auto factor = literal(b)) return zmul_literal(a, *factor);
  return keep();
}

Answer ArithmeticRules::zmul_literal(Id a, double factor) {
  // At a = +0 the product is +0 as well if the factor is finite with its sign clear.
  const bool plain =
      facts_[a].not_negative_zero && !std::signbit(factor) && is_finite_float(factor);
  if (plain) return again(Op::Mul, a, graph_.literal(factor));
  // Zero where a is, of either sign; elsewhere the sign may be taken from either factor.
  if (is(a, Op::Neg)) return again(Op::Zmul, operand(a), graph_.literal(-factor));
  return keep();
}

Answer ArithmeticRules::pow(Id a, Id b) {
  // IEEE 754-2019, 9.2.1: 1 for any base, NaN too; and for base 1 with any exponent.
  if (is_literal(b, 0.0) || is_literal(b, -0.0) || is_literal(a, 1)) return number(1);
  // The result is the base itself: faithful rounding returns representable results.
  if (is_literal(b, 1)) return same(a);
  return keep();
}

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

Id Rules::simplified(const Node& node) {
  Node now = node;
  for (;;) {
    const Answer answer = apply(now);
    if (!answer.changed) return graph_.intern(now);
    if (answer.id != kNone) return answer.id;
    now = answer.node;
  }
}

Answer Rules::apply(const Node& node) {
  const auto& [a, b, c] = node.args;
  switch (node.op) {
    case Op::Add: return arithmetic_.add(a, b);
    case Op::Sub: return arithmetic_.sub(a, b);
    case Op::Mul: return arithmetic_.mul(a, b);
    case Op::Div: return arithmetic_.div(a, b);
    case Op::Neg: return arithmetic_.neg(a);
    case Op::Fma: return arithmetic_.fma(a, b, c);
    case Op::Square: return arithmetic_.square(a);
    case Op::Zmul: return arithmetic_.zmul(a, b);
    case Op::Pow: return arithmetic_.pow(a, b);
    case Op::Abs: return logic_.abs(a);
    case Op::Sign: return logic_.sign(a);
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc: return logic_.to_integer(a);
    case Op::Min: return logic_.min(a, b);
    case Op::Max: return logic_.max(a, b);
    case Op::Eq:
    case Op::Ne: return logic_.equal(node);
    case Op::Lt:
    case Op::Gt: return logic_.strictly_ordered(a, b);
    case Op::And: return logic_.logical_and(a, b);
    case Op::Or: return logic_.logical_or(a, b);
    case Op::Not: return logic_.logical_not(a);
    case Op::Select: return logic_.select(a, b, c);
    default: return {};
  }
}

Program simplify(const Program& program) {
  std::optional<Rules> rules;
  Program out = rewrite(program, "simplify", [&](Graph& graph, const Node& node) {
    if (is_leaf(node.op)) return graph.intern(node);
    if (!rules) rules.emplace(graph);
    return rules->simplified(make_node(node.op, node.args[0], node.args[1], node.args[2]));
  });
  // Removes nodes that only the removed guards needed.
  std::vector<Guard> guards = simplify_guards(out);
  if (guards == out.guards) return out;
  out.guards = std::move(guards);
  return remove_dead(out);
}

Program finish(const Program& program) {
  if (!chooses_products(program)) return program;
  return rewrite(program, "finish", finished);
}

}  // namespace topograd::ir
