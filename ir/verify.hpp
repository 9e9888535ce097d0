// The verifier: the list of what must hold of every program.
#pragma once

#include "program.hpp"

#include <optional>
#include <string>

namespace topograd::ir {

/// The first violated invariant, with the node's line of the text form, or nothing. Checked:
///   - operands precede their users; arity as in the op table; unused operand fields are zero
///   - leaf slots are below the counts in Program::leaves (tangents: below parameters)
///   - no two nodes are equal; operands of commutative ops ascend; literals are canonical
///   - outputs and guard conditions name existing nodes
std::optional<std::string> violation(const Program& program);

/// What is wrong, and at which node (kNone: at an output or a guard).
struct Violation {
  Id node = kNone;
  std::string message;
};
/// As violation(), for those who know more of the node than its line.
std::optional<Violation> find_violation(const Program& program);

/// Ends the process with the violation and the program's text; a defect of ours, not of a caller.
/// `where` names the pass that made the program.
void verify(const Program& program, const char* where);

}  // namespace topograd::ir
