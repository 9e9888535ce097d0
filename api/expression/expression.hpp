// Expressions as text: their parser (ir/text.hpp prints them), and programs as Values.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "../../frontend/value/value.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"

namespace topograd {

/// Parses one or more rows, separated by ';', into a program with one output per row.
///
/// Operators from weakest to strongest: || && == != < <= > >= + - * / unary-minus ! ^
/// (right-associative). Functions are the ops of the table by their names; pi, inf and nan are
/// numbers unless `names` has them. "t = expression;" names a sub-expression for later use. Numbers
/// are literals and part of the structure; integer and half-integer exponents of ^ become squares,
/// products and roots as in pow(Value, double); pow(a, b) is the general power. 1 / a is
/// reciprocal(a). Nothing is simplified.
///
/// Throws Error{Parse} with line, column and, on lines of their own, the text with a caret;
/// Error{InvalidArgument} for malformed or duplicate names. Cost: linear in the text, for any depth
/// of parentheses.
ir::Program parse(std::string_view text, const ExpressionNames& names);

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
