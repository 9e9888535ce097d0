// Element-wise operations: the ops of ir/ops.def and functions of Values, as expressions.
#include "../../frontend/traced_function.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "operations.hpp"
#include "state.hpp"

#include <array>
#include <string>

namespace topograd::ops {

Tensor detail::elementwise(const char* call, ir::Op op, std::initializer_list<Tensor> operands,
                           std::initializer_list<double> numbers) {
  ir::Graph graph;
  std::array<ir::Id, 3> args = {};
  const auto tensors = static_cast<std::uint32_t>(operands.size());
  const auto uniforms = static_cast<std::uint32_t>(numbers.size());
  for (std::uint32_t k = 0; k < tensors; ++k) args[k] = graph.leaf(ir::Op::Parameter, k);
  for (std::uint32_t k = 0; k < uniforms; ++k) args[tensors + k] = graph.leaf(ir::Op::Uniform, k);
  const ir::Id out = graph.add(op, args[0], args[1], args[2]);
  return compose(call, graph.extract({&out, 1}, {.parameters = tensors, .uniforms = uniforms}),
                 operands, numbers);
}

Tensor map(const std::function<Value(std::span<const Value>)>& f,
           std::initializer_list<Tensor> tensors) {
  if (tensors.size() == 0)
    throw Error(ErrorCode::InvalidArgument, "map: expected a tensor at least, got none");
  if (tensors.size() > detail::kMostInputs) {
    throw Error(ErrorCode::Unsupported, "map: expected at most " +
                                            std::to_string(detail::kMostInputs) + " tensors, got " +
                                            std::to_string(tensors.size()));
  }
  const auto traced = topograd::detail::trace_function(
      "map", tensors.size(),
      [&](std::span<const Value> values) { return std::vector<Value>{f(values)}; });
  // Numbers of the function are uniforms, so that other numbers use the same kernel.
  ir::Graph graph;
  std::vector<ir::Id> ids;
  for (const ir::Node& node : traced.program.nodes) {
    ids.push_back(node.op == ir::Op::Data ? graph.leaf(ir::Op::Uniform, node.slot())
                                          : graph.copy(node, ids));
  }
  const ir::Id out = ids[traced.program.outputs[0]];
  const ir::LeafCounts leaves{.parameters = static_cast<std::uint32_t>(tensors.size()),
                              .uniforms = static_cast<std::uint32_t>(traced.numbers.size())};
  return detail::compose("map", graph.extract({&out, 1}, leaves),
                         std::span(tensors.begin(), tensors.size()), traced.numbers);
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  return detail::elementwise("add", ir::Op::Add, {a, b});
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return detail::elementwise("sub", ir::Op::Sub, {a, b});
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return detail::elementwise("mul", ir::Op::Mul, {a, b});
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return detail::elementwise("div", ir::Op::Div, {a, b});
}
Tensor operator-(const Tensor& a) { return detail::elementwise("neg", ir::Op::Neg, {a}); }

/// Without the special cases of ir::Op::Gelu for large numbers, which cost as much as the
/// distribution: only operands for which the product is 0 anyway are excluded.
Tensor gelu(const Tensor& a) {
  ir::Graph graph;
  const ir::Id x = graph.leaf(ir::Op::Parameter, 0);
  const ir::Id product = graph.add(ir::Op::Mul, x, graph.add(ir::Op::NormalCdf, x));
  const ir::Id below = graph.add(ir::Op::Lt, x, graph.literal(-100));
  const ir::Id out = graph.add(ir::Op::Select, below, graph.literal(-0.0), product);
  return detail::compose("gelu", graph.extract({&out, 1}, {.parameters = 1}), {&a, 1}, {});
}
Tensor leaky_relu(const Tensor& a, double slope) {
  return detail::elementwise("leaky_relu", ir::Op::LeakyRelu, {a}, {slope});
}
Tensor leaky_relu(const Tensor& a) { return leaky_relu(a, 0.01); }
Tensor elu(const Tensor& a, double scale) {
  return detail::elementwise("elu", ir::Op::Elu, {a}, {scale});
}
Tensor elu(const Tensor& a) { return elu(a, 1); }
Tensor pow(const Tensor& a, double exponent) {
  detail::state_of("pow", a);
  return map([exponent](Value v) { return topograd::pow(v, exponent); }, a);
}
Tensor clamp(const Tensor& a, double low, double high) {
  if (!(low <= high)) {
    throw Error(ErrorCode::InvalidArgument, "clamp: expected low <= high, got " +
                                                ir::print_number(low) + " and " +
                                                ir::print_number(high));
  }
  return detail::elementwise("clamp", ir::Op::Clamp, {a}, {low, high});
}

}  // namespace topograd::ops
