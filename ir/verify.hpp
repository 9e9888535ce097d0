// The verifier: the invariants of every program.
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

/// A violated invariant and its node (kNone: an output or a guard).
struct Violation {
  Id node = kNone;
  std::string message;
};
/// Like violation(), but with the node instead of its line.
std::optional<Violation> find_violation(const Program& program);

/// Ends the process with the violation and the program's text: a defect of the library, not of the
/// caller. `where` names the pass that made the program.
void verify(const Program& program, const char* where);

}  // namespace topograd::ir
