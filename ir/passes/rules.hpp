// The algebraic rules, one small function for each family of ops.
//
// Contract of every rule: the bits of the value stay the same for all inputs, NaN, infinities,
// subnormals and signed zeros included, in float and in double; only payload and sign of a NaN may
// change. Float kernels read a literal as float(value), so conditions on literals hold for both. No
// rule makes a program longer: each answers with a node, or with one op on existing nodes.
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

/// Simplifies nodes whose operands are in the graph and already simplified.
class Rules {
 public:
  explicit Rules(Graph& graph) : graph_(graph), facts_(graph) {}
  Id simplified(const Node& node);

 private:
  Answer apply(const Node& node);
  // arithmetic_rules.cpp
  Answer add(Id a, Id b);
  Answer sub(Id a, Id b);
  Answer mul(Id a, Id b);
  Answer div(Id a, Id b);
  Answer neg(Id a);
  Answer neg_of_product(const Node& product);
  Answer fma(Id a, Id b, Id c);
  Answer square(Id a);
  Answer zmul(Id a, Id b);
  Answer zmul_literal(Id a, double factor);
  Answer pow(Id a, Id b);
  // logic_rules.cpp
  Answer abs(Id a);
  Answer sign(Id a);
  Answer to_integer(Id a);
  Answer min(Id a, Id b);
  Answer max(Id a, Id b);
  Answer equal(const Node& node);
  Answer strictly_ordered(Id a, Id b);
  Answer logical_and(Id a, Id b);
  Answer logical_or(Id a, Id b);
  Answer logical_not(Id a);
  Answer select(Id condition, Id a, Id b);
  Answer truth_of(Id a);

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
  std::optional<double> literal(Id id) const;
  /// Truth value of a literal, if float and double agree on it.
  std::optional<bool> truth(Id id) const;

  /// A literal operand of a commutative op and the other operand.
  struct Scaled {
    Id other;
    double factor;
  };
  std::optional<Scaled> literal_operand(Id a, Id b) const;

  Graph& graph_;
  FactTable facts_;
};

}  // namespace topograd::ir
