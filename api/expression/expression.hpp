// Parser of expressions as text; ir/formulas.hpp prints them.
#pragma once

#include "../../ir/formulas.hpp"
#include "../../ir/program.hpp"

#include <string_view>

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

}  // namespace topograd
