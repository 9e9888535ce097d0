// Element-wise operations as expressions, and sums, means and extremes along axes.
#include <algorithm>
#include <array>
#include <string>

#include "../../frontend/traced_function.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "fused_run.hpp"
#include "operations.hpp"
#include "state.hpp"

namespace topograd::ops {
namespace {

using detail::state_of;

/// The reduced axes as flags.
std::vector<bool> reduced_axes(const char* call, const Shape& shape, const Axes& axes) {
  std::vector<bool> reduced(shape.size(), axes.empty());
  for (const std::int64_t axis : axes) {
    const std::size_t at = checked_axis(call, shape, axis);
    if (reduced[at]) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected each axis once, got " + to_text(axes));
    }
    reduced[at] = true;
  }
  return reduced;
}

Shape without(const Shape& shape, const std::vector<bool>& reduced, bool keep) {
  Shape out;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (!reduced[k]) out.push_back(shape[k]);
    if (reduced[k] && keep) out.push_back(1);
  }
  return out;
}

/// Reorders entries: kept axes first, then reduced ones.
template <class T>
std::vector<T> kept_first(const std::vector<T>& from, const std::vector<bool>& reduced) {
  std::vector<T> out;
  for (const bool last : {false, true})
    for (std::size_t k = 0; k < from.size(); ++k)
      if (reduced[k] == last) out.push_back(from[k]);
  return out;
}

Tensor reduce(const char* call, const Tensor& a, detail::FusedReduction reduction, const Axes& axes,
              bool keep) {
  const detail::TensorState& own = state_of(call, a);
  const std::vector<bool> reduced = reduced_axes(call, own.shape, axes);
  std::int64_t depth = 1;
  for (std::size_t k = 0; k < own.shape.size(); ++k)
    if (reduced[k]) depth *= own.shape[k];
  if (depth == 0 && reduction != detail::FusedReduction::sum) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected at least one entry, got " + to_text(own.shape));
  }
  const Type type = own.type == Type::f16 ? Type::f32 : own.type;
  if (reduction == detail::FusedReduction::argmax || reduction == detail::FusedReduction::argmin)
    detail::check_index_range(call, type, depth);
  Tensor out = detail::make_tensor(without(own.shape, reduced, keep), type, own.device);
  const auto outputs = static_cast<std::uint64_t>(out.count());
  if (depth == 0) return full(out.shape(), 0, type).evaluate();
  // An expression that was not computed is fused, and its result is not stored.
  detail::PendingExpression pending;
  if (own.data.storage) {
    pending.program = detail::identity_program();
    pending.inputs.push_back({own.data, own.type, own.shape, nullptr});
  } else {
    pending = *own.pending;
  }
  for (detail::PendingInput& input : pending.inputs)
    input.view.strides = kept_first(input.view.strides, reduced);
  const detail::FusedLoop loop =
      detail::make_loop(kept_first(own.shape, reduced), type, pending, own.device, 3);
  detail::run_reduce(loop, reduction, outputs, static_cast<std::uint64_t>(depth),
                     out.state()->data);
  return out;
}

/// The derivative of an extreme: distributed to the equal entries.
Tensor extreme(const char* call, const Tensor& a, detail::FusedReduction reduction,
               const Axes& axes, bool keep) {
  const Tensor kept = reduce(call, a, reduction, axes, true);
  const std::vector<bool> reduced = reduced_axes(call, a.shape(), axes);
  Tensor out = detail::make_view(
      kept, without(a.shape(), reduced, keep),
      {kept.state()->data.storage, 0, contiguous_strides(without(a.shape(), reduced, keep))});
  if (!detail::wants_grad({&a, 1})) return out;
  detail::record(out, {&a, 1}, [value = a.detach(), kept, axes](const Tensor& g) {
    const Tensor chosen = equal(value, kept);
    return std::vector{chosen * (g.reshape(kept.shape()) / sum(chosen, axes, true))};
  });
  return out;
}

}  // namespace

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

Tensor sum(const Tensor& a, const Axes& axes, bool keep) {
  Tensor out = reduce("sum", a, detail::FusedReduction::sum, axes, keep);
  const Shape kept = without(a.shape(), reduced_axes("sum", a.shape(), axes), true);
  detail::record(out, {&a, 1}, [shape = a.shape(), kept](const Tensor& g) {
    return std::vector{g.reshape(kept).broadcast_to(shape)};
  });
  return out;
}

namespace {

Tensor mean_named(const char* call, const Tensor& a, const Axes& axes, bool keep) {
  reduced_axes(call, state_of(call, a).shape, axes);  // errors name it
  const Tensor total = sum(a, axes, keep);
  const double entries = static_cast<double>(a.count()) /
                         static_cast<double>(std::max<std::int64_t>(total.count(), 1));
  return total * (1 / entries);
}

}  // namespace

Tensor mean(const Tensor& a, const Axes& axes, bool keep) {
  return mean_named("mean", a, axes, keep);
}

Tensor max(const Tensor& a, const Axes& axes, bool keep) {
  return extreme("max", a, detail::FusedReduction::max, axes, keep);
}
Tensor min(const Tensor& a, const Axes& axes, bool keep) {
  return extreme("min", a, detail::FusedReduction::min, axes, keep);
}

Tensor variance(const Tensor& a, const Axes& axes, bool keep) {
  return mean(square(a - mean_named("variance", a, axes, true)), axes, keep);
}

Tensor argmax(const Tensor& a, std::int64_t axis) {
  return reduce("argmax", a, detail::FusedReduction::argmax, {axis}, false);
}
Tensor argmin(const Tensor& a, std::int64_t axis) {
  return reduce("argmin", a, detail::FusedReduction::argmin, {axis}, false);
}

}  // namespace topograd::ops
