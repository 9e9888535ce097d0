// Common parts of passes: the loop that replaces nodes one by one, and the check at the end.
#pragma once

#include <utility>
#include <vector>

#include "../program.hpp"
#include "../verify.hpp"

namespace topograd::ir {

/// Returns the program; in debug builds ends the process if it breaks an invariant.
inline Program checked(Program program, [[maybe_unused]] const char* pass) {
#ifndef NDEBUG
  verify(program, pass);
#endif
  return program;
}

/// Rebuilds `program`: `rule(graph, node)` gets each node with its operands already in `graph` and
/// returns the id that replaces it there. Dead nodes are left out.
template <class Rule>
Program rewrite(const Program& program, const char* pass, Rule rule) {
  Graph graph;
  graph.reserve(program.nodes.size());
  std::vector<Id> map(program.nodes.size());
  for (Id id = 0; id < program.nodes.size(); ++id) {
    Node node = program.nodes[id];
    for (int k = 0; k < arity(node.op); ++k) node.args[k] = map[node.args[k]];
    map[id] = rule(graph, node);
  }
  std::vector<Id> outputs;
  outputs.reserve(program.outputs.size());
  for (Id id : program.outputs) outputs.push_back(map[id]);
  std::vector<Guard> guards;
  for (const Guard& g : program.guards) guards.push_back({map[g.condition], g.expected});
  return checked(graph.extract(outputs, program.leaves, guards), pass);
}

}  // namespace topograd::ir
