// Rules of signs, rounding, order, logic and selection; rules.hpp states their contract.
#pragma once

#include "rule_operands.hpp"

namespace topograd::ir {

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

}  // namespace topograd::ir
