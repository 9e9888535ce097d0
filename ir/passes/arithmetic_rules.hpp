// Rules of sums, products, quotients and powers; rules.hpp states their contract.
#pragma once

#include "rule_operands.hpp"

namespace topograd::ir {

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

}  // namespace topograd::ir
