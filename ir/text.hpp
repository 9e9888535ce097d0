// Programs as text: printed and parsed without loss, and written as infix formulas.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program.hpp"

namespace topograd::ir {

/// Prints one node per line, in node order:
///
///     program parameters=2 data=1 uniforms=0 seeds=0 {
///       %0 = parameter 0
///       %1 = literal 0.5
///       %2 = mul %0, %1
///       guard %2 true
///       return %2
///     }
///
/// Literals are the shortest decimals that read back to the same bits; nan, inf, -inf, -0.
std::string print(const Program& program);

/// The line of one node in print(), without its indent: "%2 = mul %0, %1".
std::string print_node(Id id, const Node& node);

/// Shortest decimal that reads back to the same bits, as print() writes literals.
std::string print_number(double value);

/// Reads the output of print(). White space and `#` comments are free, names after % may be words,
/// missing counts are 0, operands of commutative ops come in any order. The result satisfies the
/// verifier. Throws Error{Parse} with line and column for malformed text, unknown ops, wrong arity,
/// operands that do not precede their user, slots beyond their count, equal nodes.
Program parse(std::string_view text);

/// Graphviz form of a program, one box per node.
std::string print_dot(const Program& program, std::string_view title);

}  // namespace topograd::ir

namespace topograd {

/// Names of leaves in an expression: the k-th name of a list is slot k of that leaf space.
///
/// A name is a letter or underscore, then letters, digits and underscores; it may end in a
/// coordinate, "a[0]". a.x, a.y, a.z and a.w are other spellings of a[0] to a[3].
struct ExpressionNames {
  std::vector<std::string> parameters, data, uniforms;
};

/// A program as formulas that parse() (api/expression/expression.hpp) reads back.
struct Formulas {
  /// Sub-expressions that are used more than once (or are too long for one line) and their names
  /// t1, t2, ..., each in terms of leaves and earlier ones.
  std::vector<std::pair<std::string, std::string>> definitions;
  std::vector<std::string> outputs;

  /// The input of parse(): one line "t1 = ...;" for each definition, then the outputs, separated by
  /// ";" and line feed.
  std::string text() const;
};

/// Writes a program in infix notation with as few parentheses as parse() needs. Tangents have the
/// name of their parameter after a "d", seeds are s0, s1, ...; guards are left out. Throws
/// Error{InvalidArgument} if a leaf has no name. Cost: linear in the nodes, independent of depth.
///
///   first  number of the first definition
Formulas formulas(const ir::Program& program, const ExpressionNames& names, std::size_t first = 1);

}  // namespace topograd
