// Conversion of programs to expressions of Values.
#include "expression_values.hpp"

#include "../../ir/error.hpp"

#include <string>

namespace topograd {
namespace {

using ir::Op;

void check_count(const char* kind, std::size_t expected, std::size_t got) {
  if (got >= expected) return;
  throw Error(ErrorCode::Shape, std::string("to_values: expected ") + std::to_string(expected) +
                                    " " + kind + ", got " + std::to_string(got));
}

Value leaf(const ir::Node& node, const ExpressionOperands& operands) {
  if (node.op == Op::Parameter) return operands.parameters[node.slot()];
  if (node.op == Op::Data) return operands.data[node.slot()];
  if (node.op == Op::Uniform) return operands.uniforms[node.slot()];
  if (node.op == Op::Literal) return literal(node.literal());
  throw Error(ErrorCode::Unsupported,
              "to_values: a residual cannot read " + std::string(ir::info(node.op).name));
}

}  // namespace

std::vector<Value> to_values(const ir::Program& program, const ExpressionOperands& operands) {
  check_count("parameters", program.leaves.parameters, operands.parameters.size());
  check_count("data", program.leaves.data, operands.data.size());
  check_count("uniforms", program.leaves.uniforms, operands.uniforms.size());
  std::vector<Value> values;
  values.reserve(program.nodes.size());
  for (const ir::Node& node : program.nodes) {
    const auto operand = [&](std::size_t k) { return values[node.args[k]]; };
    if (ir::is_leaf(node.op)) {
      values.push_back(leaf(node, operands));
    } else if (ir::arity(node.op) == 1) {
      values.push_back(Value::make(node.op, operand(0)));
    } else if (ir::arity(node.op) == 2) {
      values.push_back(Value::make(node.op, operand(0), operand(1)));
    } else {
      values.push_back(Value::make(node.op, operand(0), operand(1), operand(2)));
    }
  }
  std::vector<Value> rows;
  for (const ir::Id output : program.outputs) rows.push_back(values[output]);
  return rows;
}

}  // namespace topograd
