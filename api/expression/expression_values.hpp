// Programs as expressions: what was read from text becomes residuals.
#pragma once

#include "../../frontend/value/value.hpp"
#include "../../ir/program.hpp"

#include <span>
#include <vector>

namespace topograd {

/// What the leaves of a program stand for, by slot.
struct ExpressionOperands {
  std::span<const Value> parameters, data, uniforms;
};

/// The outputs of a program over these Values; its literals stay literals.
///
/// Throws Error{Shape} if there are fewer operands of a kind than the program has slots. Cost: one
/// tape node for each of the program's.
std::vector<Value> to_values(const ir::Program& program, const ExpressionOperands& operands);

}  // namespace topograd
