// A function of a few numbers, written on Values and traced once.
#include "traced_function.hpp"

#include "../ir/error.hpp"
#include "../ir/graph.hpp"
#include "problem.hpp"

#include <string>

namespace topograd::detail {

TracedFunction trace_function(const char* call, std::size_t arguments,
                              const std::function<std::vector<Value>(std::span<const Value>)>& f) {
  Problem problem;
  std::vector<double> zeros(arguments, 0.0);
  const Parameters x = problem.add_parameters(zeros);
  std::vector<Value> values;
  for (std::size_t k = 0; k < arguments; ++k) values.push_back(x[k]);
  const std::vector<Value> rows = f(values);
  try {
    problem.add_residual(rows, {.loss = {}, .label = call});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NoParameters) throw;
    throw Error(error.code(), std::string(call) +
                                  ": expected a result that depends on an argument, got constants");
  }
  const ir::Batch& batch = problem.batch(0);
  TracedFunction traced{problem.topology(0).program, {}};
  if (!traced.program.guards.empty()) {
    throw Error(ErrorCode::Unsupported,
                std::string(call) + ": expected select(), got an if on a Value");
  }
  // Canonical slots stand for arguments in an order of their own, and only for those that are read.
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : traced.program.nodes) {
    map.push_back(node.op == ir::Op::Parameter ? graph.leaf(node.op, batch.index(0, node.slot()))
                                               : graph.copy(node, map));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : traced.program.outputs) outputs.push_back(map[output]);
  ir::LeafCounts leaves = traced.program.leaves;
  leaves.parameters = static_cast<std::uint32_t>(arguments);
  traced.program = graph.extract(outputs, leaves);
  for (std::uint32_t k = 0; k < batch.data_columns(); ++k)
    traced.numbers.push_back(batch.data(0, k));
  return traced;
}

}  // namespace topograd::detail
