// Traces expressions.
#include "expression.hpp"

#include "../../frontend/traced_function.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"

#include <algorithm>

namespace topograd::ops {

Expression::Expression(const char* call, std::size_t inputs, const Function& function) {
  topograd::detail::TracedFunction traced =
      topograd::detail::trace_function(call, inputs, function);
  program_ = ir::optimize(traced.program);
  program_.leaves = traced.program.leaves;
  numbers_ = std::move(traced.numbers);
  hash_ = hash_of(program_);
  operations_ = static_cast<double>(std::max<std::size_t>(1, ir::operation_count(program_)));
}

ir::Hash128 hash_of(const ir::Program& program) {
  ir::Hash128 hash;
  for (const ir::Node& node : program.nodes) {
    hash.add(static_cast<std::uint64_t>(node.op));
    for (const ir::Id arg : node.args) hash.add(arg);
  }
  for (const ir::Id output : program.outputs) hash.add(output);
  hash.add(program.leaves.parameters);
  hash.add(program.leaves.data);
  return hash;
}

bool commutes(const Expression& f) {
  const ir::Program& program = f.program();
  ir::Graph graph;
  const std::vector<ir::Id> same = ir::append(graph, program);
  std::vector<ir::Id> turned;
  for (const ir::Node& node : program.nodes) {
    turned.push_back(node.op == ir::Op::Parameter ? graph.leaf(node.op, 1 - node.slot())
                                                  : graph.copy(node, turned));
  }
  return std::ranges::all_of(program.outputs, [&](ir::Id id) { return same[id] == turned[id]; });
}

}  // namespace topograd::ops
