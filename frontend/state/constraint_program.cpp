// Wraps the outputs of a constraint.
#include "constraint_program.hpp"

#include "../../ir/program.hpp"

#include <vector>

namespace topograd::detail {

ir::Program penalty_program(const ir::Program& plain, BlockKind kind) {
  ir::Graph graph;
  const std::vector<ir::Id> moved = ir::append(graph, plain);
  ir::LeafCounts leaves = plain.leaves;
  const ir::Id weight = graph.leaf(ir::Op::Uniform, leaves.uniforms++);
  const std::uint32_t shifts = leaves.data;
  const auto rows = static_cast<std::uint32_t>(plain.outputs.size());
  leaves.data += 2 * rows;
  std::vector<ir::Id> outputs;
  for (std::uint32_t k = 0; k < rows; ++k) {
    const ir::Id shift = graph.leaf(ir::Op::Data, shifts + k);
    const ir::Id scale = graph.leaf(ir::Op::Data, shifts + rows + k);
    const ir::Id scaled = graph.add(ir::Op::Mul, scale, moved[plain.outputs[k]]);
    ir::Id distance = graph.add(ir::Op::Sub, shift, scaled);
    if (kind == BlockKind::inequality) distance = graph.add(ir::Op::Relu, distance);
    outputs.push_back(graph.add(ir::Op::Mul, weight, distance));
  }
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : plain.guards)
    guards.push_back({moved[guard.condition], guard.expected});
  return graph.extract(outputs, leaves, guards);
}

ir::Program barrier_program(const ir::Program& plain) {
  ir::Graph graph;
  const std::vector<ir::Id> moved = ir::append(graph, plain);
  ir::LeafCounts leaves = plain.leaves;
  const ir::Id weight = graph.leaf(ir::Op::Uniform, leaves.uniforms++);
  ir::Id sum = ir::kNone;
  for (const ir::Id output : plain.outputs) {
    const ir::Id shift = graph.leaf(ir::Op::Data, leaves.data++);
    const ir::Id log = graph.add(ir::Op::Log, graph.add(ir::Op::Add, moved[output], shift));
    sum = sum == ir::kNone ? log : graph.add(ir::Op::Add, sum, log);
  }
  leaves.data += static_cast<std::uint32_t>(plain.outputs.size());  // the scales
  const ir::Id zero = graph.literal(0);
  const ir::Id energy =
      graph.add(ir::Op::Select, graph.add(ir::Op::Ne, weight, zero),
                graph.add(ir::Op::Neg, graph.add(ir::Op::Mul, weight, sum)), zero);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : plain.guards)
    guards.push_back({moved[guard.condition], guard.expected});
  return graph.extract(std::vector<ir::Id>{energy}, leaves, guards);
}

}  // namespace topograd::detail
