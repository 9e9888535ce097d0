// The algebraic rules, one small function for each family of ops.
//
// Contract of every rule: the bits of the value stay the same for all inputs, NaN, infinities,
// subnormals and signed zeros included, in float and in double; only payload and sign of a NaN may
// change. Float kernels read a literal as float(value), so conditions on literals hold for both. No
// rule makes a program longer: each answers with a node, or with one op on existing nodes.
#pragma once

#include "arithmetic_rules.hpp"
#include "facts.hpp"
#include "logic_rules.hpp"

namespace topograd::ir {

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
