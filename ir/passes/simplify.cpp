// The algebraic pass: tries the rules of each node's op until none applies.
#include "passes.hpp"
#include "rewrite.hpp"
#include "rules.hpp"

#include <algorithm>
#include <optional>

namespace topograd::ir {
namespace {

// Truth value of a literal, if float and double agree on it.
std::optional<bool> known_truth(const Node& node) {
  if (node.op != Op::Literal) return std::nullopt;
  const bool truth = node.literal() != 0;
  if (truth != (static_cast<float>(node.literal()) != 0)) return std::nullopt;
  return truth;
}

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

}  // namespace

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
    case Op::Add: return add(a, b);
    case Op::Sub: return sub(a, b);
    case Op::Mul: return mul(a, b);
    case Op::Div: return div(a, b);
    case Op::Neg: return neg(a);
    case Op::Fma: return fma(a, b, c);
    case Op::Square: return square(a);
    case Op::Zmul: return zmul(a, b);
    case Op::Pow: return pow(a, b);
    case Op::Abs: return abs(a);
    case Op::Sign: return sign(a);
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Trunc: return to_integer(a);
    case Op::Min: return min(a, b);
    case Op::Max: return max(a, b);
    case Op::Eq:
    case Op::Ne: return equal(node);
    case Op::Lt:
    case Op::Gt: return strictly_ordered(a, b);
    case Op::And: return logical_and(a, b);
    case Op::Or: return logical_or(a, b);
    case Op::Not: return logical_not(a);
    case Op::Select: return select(a, b, c);
    default: return keep();
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

}  // namespace topograd::ir
