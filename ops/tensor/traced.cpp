// Converts a traced function to the program of a fused expression.
#include "traced.hpp"

#include "../../ir/graph.hpp"

namespace topograd::ops::detail {

ir::Program program_of(std::uint32_t tensors, std::uint32_t numbers,
                       const std::function<std::vector<Value>(std::span<const Value>)>& f) {
  const auto traced = topograd::detail::trace_function("program", tensors + numbers, f);
  ir::Graph graph;
  std::vector<ir::Id> ids, outputs;
  for (const ir::Node& node : traced.program.nodes) {
    if (node.op == ir::Op::Parameter && node.slot() >= tensors) {
      ids.push_back(graph.leaf(ir::Op::Uniform, node.slot() - tensors));
    } else if (node.op == ir::Op::Data) {
      ids.push_back(graph.literal(traced.numbers[node.slot()]));
    } else {
      ids.push_back(graph.copy(node, ids));
    }
  }
  for (const ir::Id output : traced.program.outputs) outputs.push_back(ids[output]);
  return graph.extract(outputs, {.parameters = tensors, .uniforms = numbers});
}

}  // namespace topograd::ops::detail
