// The algebraic rules, one function for each family of ops, and the facts about values they need.
#pragma once

#include <optional>
#include <vector>

#include "../program.hpp"

namespace topograd::ir {

/// Truth value of a literal, if float and double agree on it.
std::optional<bool> known_truth(const Node& node);

/// Facts about a value for all inputs, in float and in double; a NaN may always occur.
struct Facts {
  bool boolean = false;            ///< 1 or +0
  bool sign_clear = false;         ///< the sign bit is clear
  bool not_negative_zero = false;  ///< follows from sign_clear
  bool integral = false;           ///< a whole number or infinite
};

/// Facts of the nodes of a growing graph, derived once for each node, operands first.
class FactTable {
 public:
  explicit FactTable(const Graph& graph) : graph_(graph) {}
  const Facts& operator[](Id id);

 private:
  const Graph& graph_;
  std::vector<Facts> facts_;
};

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

/// The rule of each op, for its operands.
class ArithmeticRules : RuleOperands {
 public:
  using RuleOperands::RuleOperands;

  Answer add(Id a, Id b);
  Answer sub(Id a, Id b);
  Answer mul(Id a, Id b);
  Answer div(Id a, Id b);
  Answer neg(Id a);
  Answer fma(Id a, Id b, Id c);
  Answer square(Id a);
  Answer zmul(Id a, Id b);
  Answer pow(Id a, Id b);

 private:
  Answer neg_of_product(const Node& product);
  Answer zmul_literal(Id a, double factor);
};

/// The rule of each op, for its operands.
class LogicRules : RuleOperands {
 public:
  using RuleOperands::RuleOperands;

  Answer abs(Id a);
  Answer sign(Id a);
  /// The rule of floor, ceil, round and trunc.
  Answer to_integer(Id a);
  Answer min(Id a, Id b);
  Answer max(Id a, Id b);
  /// The rule of == and !=.
  Answer equal(const Node& node);
  /// The rule of < and >.
  Answer strictly_ordered(Id a, Id b);
  Answer logical_and(Id a, Id b);
  Answer logical_or(Id a, Id b);
  Answer logical_not(Id a);
  Answer select(Id condition, Id a, Id b);

 private:
  Answer truth_of(Id a);
  bool is_guarded_root(Id comparison, Id at_zero, Id root);
};

/// Simplifies nodes whose operands are in the graph and already simplified.
class Rules {
 public:
  explicit Rules(Graph& graph)
      : graph_(graph), facts_(graph), arithmetic_(graph, facts_), logic_(graph, facts_) {}
  Id simplified(const Node& node);

 private:
  Answer apply(const Node& node);

  Graph& graph_;
  FactTable facts_;
  ArithmeticRules arithmetic_;
  LogicRules logic_;
};

}  // namespace topograd::ir
