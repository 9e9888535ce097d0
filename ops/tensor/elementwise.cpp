// Element-wise operations: the ops of ir/ops.def and functions of Values, as expressions.
#include "../../frontend/traced_function.hpp"
#include "../../ir/error.hpp"
#include "../../ir/graph.hpp"
#include "../../ir/text.hpp"
#include "state.hpp"

#include <array>
#include <string>

namespace topograd::ops {
namespace {

/// y = op(a, b, c) with as many operands as the op has; `numbers` follow them.
Tensor apply(const char* call, ir::Op op, std::span<const Tensor> operands,
             std::span<const double> numbers = {}) {
  ir::Graph graph;
  std::array<ir::Id, 3> args = {};
  for (std::uint32_t k = 0; k < operands.size(); ++k) args[k] = graph.leaf(ir::Op::Parameter, k);
  for (std::uint32_t k = 0; k < numbers.size(); ++k)
    args[operands.size() + k] = graph.leaf(ir::Op::Uniform, k);
  const ir::Id out = graph.add(op, args[0], args[1], args[2]);
  const ir::LeafCounts leaves{.parameters = static_cast<std::uint32_t>(operands.size()),
                              .uniforms = static_cast<std::uint32_t>(numbers.size())};
  return detail::compose(call, graph.extract({&out, 1}, leaves), operands, numbers);
}

Tensor unary(const char* call, ir::Op op, const Tensor& a) { return apply(call, op, {&a, 1}); }

Tensor binary(const char* call, ir::Op op, const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  return apply(call, op, both);
}

}  // namespace

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

Tensor operator+(const Tensor& a, const Tensor& b) { return binary("add", ir::Op::Add, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary("sub", ir::Op::Sub, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary("mul", ir::Op::Mul, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary("div", ir::Op::Div, a, b); }
Tensor operator-(const Tensor& a) { return unary("neg", ir::Op::Neg, a); }

Tensor abs(const Tensor& a) { return unary("abs", ir::Op::Abs, a); }
Tensor square(const Tensor& a) { return unary("square", ir::Op::Square, a); }
Tensor sqrt(const Tensor& a) { return unary("sqrt", ir::Op::Sqrt, a); }
Tensor rsqrt(const Tensor& a) { return unary("rsqrt", ir::Op::Rsqrt, a); }
Tensor exp(const Tensor& a) { return unary("exp", ir::Op::Exp, a); }
Tensor log(const Tensor& a) { return unary("log", ir::Op::Log, a); }
Tensor sin(const Tensor& a) { return unary("sin", ir::Op::Sin, a); }
Tensor cos(const Tensor& a) { return unary("cos", ir::Op::Cos, a); }
Tensor tanh(const Tensor& a) { return unary("tanh", ir::Op::Tanh, a); }
Tensor sigmoid(const Tensor& a) { return unary("sigmoid", ir::Op::Sigmoid, a); }
Tensor relu(const Tensor& a) { return unary("relu", ir::Op::Relu, a); }
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
Tensor silu(const Tensor& a) { return unary("silu", ir::Op::Silu, a); }
Tensor softplus(const Tensor& a) { return unary("softplus", ir::Op::Softplus, a); }
Tensor leaky_relu(const Tensor& a, double slope) {
  return apply("leaky_relu", ir::Op::LeakyRelu, {&a, 1}, {&slope, 1});
}
Tensor leaky_relu(const Tensor& a) { return leaky_relu(a, 0.01); }
Tensor elu(const Tensor& a) { return elu(a, 1); }
Tensor elu(const Tensor& a, double scale) {
  return apply("elu", ir::Op::Elu, {&a, 1}, {&scale, 1});
}
Tensor minimum(const Tensor& a, const Tensor& b) { return binary("minimum", ir::Op::Min, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary("maximum", ir::Op::Max, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return binary("pow", ir::Op::Pow, a, b); }
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
  const double limits[] = {low, high};
  return apply("clamp", ir::Op::Clamp, {&a, 1}, limits);
}
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Tensor all[] = {condition, a, b};
  return apply("where", ir::Op::Select, all);
}
Tensor equal(const Tensor& a, const Tensor& b) { return binary("equal", ir::Op::Eq, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return binary("less", ir::Op::Lt, a, b); }

}  // namespace topograd::ops
