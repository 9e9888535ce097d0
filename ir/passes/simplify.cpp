// The algebraic passes: for every program, and for those of which no derivative is taken.
#include <algorithm>
#include <optional>

#include "passes.hpp"
#include "rewrite.hpp"
#include "rules.hpp"

namespace topograd::ir {
namespace {

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
