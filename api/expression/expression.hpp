// Expressions as text: reading them into programs; ir/formulas.hpp writes them.
#pragma once

#include "../../ir/formulas.hpp"
#include "../../ir/program.hpp"

#include <string_view>

namespace topograd {

/// Reads one or several rows, separated by ';', into a program with one output a row.
///
/// From weakest to strongest: || && == != < <= > >= + - * / unary-minus ! ^ (right-associative);
/// functions are the ops of the table by their names, pi, inf and nan are numbers unless they are
/// named otherwise. "t = expression;" names a sub-expression for what follows. Numbers are
/// literals, a part of the structure; exponents of ^ that are integers or halves of integers become
/// squares, products and roots as pow(Value, double) writes them; pow(a, b) is the general power. 1
/// / a is reciprocal(a). Nothing is simplified.
///
/// Throws Error{Parse} with line, column and, on lines of their own, the text with a caret; and
/// Error{InvalidArgument} for a list of names with one that is malformed or there twice.
/// Cost: linear in the text; any depth of parentheses.
ir::Program parse(std::string_view text, const ExpressionNames& names);

}  // namespace topograd
