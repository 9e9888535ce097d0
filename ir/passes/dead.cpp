// Removal of nodes that nothing needs.
#include "checked.hpp"
#include "passes.hpp"

#include <algorithm>

namespace topograd::ir {
namespace {

std::vector<bool> needed_nodes(const Program& program) {
  std::vector<bool> needed(program.nodes.size());
  for (Id id : program.outputs) needed[id] = true;
  for (const Guard& g : program.guards) needed[g.condition] = true;
  for (Id id = static_cast<Id>(program.nodes.size()); id-- > 0;) {
    if (!needed[id]) continue;
    for (Id operand : program.nodes[id].operands()) needed[operand] = true;
  }
  return needed;
}

}  // namespace

Program remove_dead(const Program& program) {
  const std::vector<bool> needed = needed_nodes(program);
  Program out{.leaves = program.leaves};
  out.nodes.reserve(static_cast<std::size_t>(std::count(needed.begin(), needed.end(), true)));
  std::vector<Id> map(program.nodes.size());
  for (Id id = 0; id < program.nodes.size(); ++id) {
    if (!needed[id]) continue;
    Node node = program.nodes[id];
    for (int k = 0; k < arity(node.op); ++k) node.args[k] = map[node.args[k]];
    map[id] = static_cast<Id>(out.nodes.size());
    out.nodes.push_back(node);
  }
  for (Id id : program.outputs) out.outputs.push_back(map[id]);
  for (const Guard& g : program.guards) out.guards.push_back({map[g.condition], g.expected});
  return checked(std::move(out), "remove_dead");
}

}  // namespace topograd::ir
