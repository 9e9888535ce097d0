// Wraps the outputs of a constraint.
#include "constraint_program.hpp"

#include "../../ir/graph.hpp"

#include <vector>

namespace topograd::detail {

ir::Program penalty_program(const ir::Program& plain, BlockKind kind) {
  ir::Graph graph;
  const std::vector<ir::Id> moved = ir::append(graph, plain);
  ir::LeafCounts leaves = plain.leaves;
  const ir::Id weight = graph.leaf(ir::Op::Uniform, leaves.uniforms++);
  std::vector<ir::Id> outputs;
  for (const ir::Id output : plain.outputs) {
    const ir::Id shift = graph.leaf(ir::Op::Data, leaves.data++);
    ir::Id distance = graph.add(ir::Op::Sub, shift, moved[output]);
    if (kind == BlockKind::inequality) distance = graph.add(ir::Op::Relu, distance);
    outputs.push_back(graph.add(ir::Op::Mul, weight, distance));
  }
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : plain.guards)
    guards.push_back({moved[guard.condition], guard.expected});
  return graph.extract(outputs, leaves, guards);
}

}  // namespace topograd::detail
