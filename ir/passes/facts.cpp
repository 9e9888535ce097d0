// Derivation of facts from ops and the facts of operands.
#include "facts.hpp"

#include <cmath>

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

}  // namespace topograd::ir
