// Conversion of programs to expressions of Values, so that parsed text becomes residuals.
#pragma once

#include "../../frontend/value/value.hpp"
#include "../../ir/program.hpp"

#include <span>
#include <vector>

namespace topograd {

/// Values for the leaves of a program, by slot.
struct ExpressionOperands {
  std::span<const Value> parameters, data, uniforms;
};

/// The outputs of a program applied to these Values; its literals stay literals.
///
/// Throws Error{Shape} if there are fewer operands of a kind than the program has slots. Cost: one
/// tape node per node of the program.
std::vector<Value> to_values(const ir::Program& program, const ExpressionOperands& operands);

}  // namespace topograd
