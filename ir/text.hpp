// The text form of programs: prints and parses without loss.
#pragma once

#include <topograd/ir/program.hpp>

#include <string>
#include <string_view>

namespace topograd::ir {

/// One node a line, in node order:
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

/// Reads what print() writes; white space and `#` comments are free. Throws Error{Parse} with line
/// and column for malformed text, unknown ops, wrong arity, operands that do not precede their
/// user.
Program parse(std::string_view text);

/// Graphviz form of a program, one box a node.
std::string print_dot(const Program& program, std::string_view title);

}  // namespace topograd::ir
