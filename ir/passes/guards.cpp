// Guards as a separate program.
#include "guards.hpp"

#include "../graph.hpp"
#include "passes.hpp"

#include <vector>

namespace topograd::ir {

Program guard_failure(const Program& f) {
  Graph graph;
  const std::vector<Id> map = append(graph, f);
  Id failed = kNone;
  for (const Guard& guard : f.guards) {
    const Id opposite = graph.add(Op::Not, map[guard.condition]);
    const Id fails = guard.expected ? opposite : graph.add(Op::Not, opposite);
    failed = failed == kNone ? fails : graph.add(Op::Or, failed, fails);
  }
  if (failed == kNone) failed = graph.literal(0);
  return optimize(graph.extract(std::vector{failed}, f.leaves));
}

}  // namespace topograd::ir
