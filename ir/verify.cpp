// Checking the invariants of programs.
#include "verify.hpp"
#include "program.hpp"
#include "text.hpp"

#include <cstdio>
#include <cstdlib>

namespace topograd::ir {
namespace {

std::uint32_t slot_count(Op op, const LeafCounts& leaves) {
  if (op == Op::Data) return leaves.data;
  if (op == Op::Uniform) return leaves.uniforms;
  if (op == Op::Seed) return leaves.seeds;
  return leaves.parameters;  // tangents, too
}

std::string leaf_violation(const Node& node, const LeafCounts& leaves) {
  if (node.op == Op::Literal) {
    return node == make_literal(node.literal()) ? "" : "the literal is not in canonical form";
  }
  const std::uint32_t count = slot_count(node.op, leaves);
  if (node.slot() >= count) {
    return "slot " + std::to_string(node.slot()) + " is beyond the count of " +
           std::to_string(count);
  }
  return node == make_leaf(node.op, node.slot()) ? "" : "an unused operand field is not zero";
}

std::string operand_violation(Id id, const Node& node) {
  for (Id operand : node.operands()) {
    if (operand >= id) return "operand %" + std::to_string(operand) + " does not precede it";
  }
  for (std::size_t k = node.operands().size(); k < node.args.size(); ++k) {
    if (node.args[k] != 0) return "an unused operand field is not zero";
  }
  const bool ascends = !info(node.op).commutes || node.args[0] <= node.args[1];
  return ascends ? "" : "operands of a commutative op do not ascend";
}

std::optional<Violation> root_violation(const Program& program) {
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    if (program.outputs[k] >= program.nodes.size()) {
      return Violation{kNone, "output " + std::to_string(k) + " is no node"};
    }
  }
  for (std::size_t k = 0; k < program.guards.size(); ++k) {
    if (program.guards[k].condition >= program.nodes.size()) {
      return Violation{kNone, "the condition of guard " + std::to_string(k) + " is no node"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_violation(const Program& program) {
  Graph seen;
  for (Id id = 0; id < program.nodes.size(); ++id) {
    const Node& node = program.nodes[id];
    if (static_cast<std::size_t>(node.op) >= kOpCount) return Violation{id, "unknown op"};
    std::string message =
        is_leaf(node.op) ? leaf_violation(node, program.leaves) : operand_violation(id, node);
    if (message.empty() && seen.intern(node) != id) {
      message = "it equals %" + std::to_string(seen.intern(node));
    }
    if (!message.empty()) return Violation{id, print_node(id, node) + ": " + message};
  }
  return root_violation(program);
}

std::optional<std::string> violation(const Program& program) {
  if (auto found = find_violation(program)) return std::move(found->message);
  return std::nullopt;
}

void verify(const Program& program, const char* where) {
  const auto found = find_violation(program);
  if (!found) return;
  // The text can be printed only if every op is in the table.
  const bool printable = found->message != "unknown op";
  std::fprintf(stderr, "topograd: defect in %s: %s\n%s", where, found->message.c_str(),
               printable ? print(program).c_str() : "");
  std::abort();
}

}  // namespace topograd::ir
