// Questions of rules about operands, and their answers; rules.hpp states their contract.
#pragma once

#include "facts.hpp"

#include <optional>

namespace topograd::ir {

/// A rule's answer: nothing, another node's id, or one node that replaces it (and is tried again).
struct Answer {
  bool changed = false;
  Id id = kNone;
  Node node = {};
};

/// The nodes of a graph as rules see them: a base of the families of rules.
class RuleOperands {
 public:
  /// Both outlive it; the facts are those of the graph.
  RuleOperands(Graph& graph, FactTable& facts) : graph_(graph), facts_(facts) {}

 protected:
  static Answer keep() { return {}; }
  static Answer same(Id id) { return {.changed = true, .id = id}; }
  static Answer again(Op op, Id a, Id b = 0, Id c = 0) {
    return {.changed = true, .node = make_node(op, a, b, c)};
  }
  Answer number(double value) { return same(graph_.literal(value)); }

  bool is(Id id, Op op) const { return graph_[id].op == op; }
  Id operand(Id id, int k = 0) const { return graph_[id].args[k]; }
  /// Compares bits: -0 is not +0.
  bool is_literal(Id id, double value) const { return graph_[id] == make_literal(value); }
  std::optional<double> literal(Id id) const {
    return is(id, Op::Literal) ? std::optional(graph_[id].literal()) : std::nullopt;
  }

  /// A literal operand of a commutative op and the other operand.
  struct Scaled {
    Id other;
    double factor;
  };
  std::optional<Scaled> literal_operand(Id a, Id b) const {
    if (const auto factor = literal(a)) return Scaled{b, *factor};
    if (const auto factor = literal(b)) return Scaled{a, *factor};
    return std::nullopt;
  }

  Graph& graph_;
  FactTable& facts_;
};

}  // namespace topograd::ir
