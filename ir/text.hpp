// The text form of programs: prints and parses without loss.
#pragma once

#include "program.hpp"

#include <string>
#include <string_view>

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
