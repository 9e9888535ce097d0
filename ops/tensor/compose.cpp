// Expressions over tensors, fused when they are built: element-wise, and sums along axes.
#include "../../autodiff/derivatives.hpp"

#include "../../frontend/traced_function.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "fused_run.hpp"
#include "operations.hpp"
#include "state.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

namespace topograd::ops::detail {
namespace {

// A larger expression, or one with more than kMostInputs inputs, is computed and becomes an input
// of the next expression.
constexpr std::size_t kMostNodes = 200;

/// Numbers that fit the push constants of a kernel together with kMostInputs tensors, one more for
/// derivatives, a result and its own words. f64 numbers take two words.
constexpr std::size_t most_numbers(Type type) { return type == Type::f64 ? 8 : 16; }
static_assert(most_numbers(Type::f32) + 3 <= most_words(kMostInputs + 2));
static_assert(2 * most_numbers(Type::f64) + 3 <= most_words(kMostInputs + 2));

bool same_view(const View& a, const View& b) {
  return a.storage == b.storage && a.offset == b.offset && a.strides == b.strides;
}

/// Builds a graph whose leaves are inputs and numbers.
class Composer {
 public:
  Composer(const char* call, Shape shape, Type type)
      : call_(call), shape_(std::move(shape)), most_numbers_(most_numbers(type)) {}

  std::uint32_t slot(PendingInput input) {
    for (std::uint32_t k = 0; k < inputs_.size(); ++k) {
      if (same_view(inputs_[k].view, input.view) && inputs_[k].node == input.node) return k;
    }
    inputs_.push_back(std::move(input));
    return static_cast<std::uint32_t>(inputs_.size() - 1);
  }

  /// The node of an operand's element.
  ir::Id operand(const Tensor& tensor) {
    const TensorState& state = *tensor.state();
    if (state.data.storage && !state.number) {
      View view = state.data;
      view.strides = broadcast_strides(call_, state.shape, view.strides, shape_);
      return graph_.leaf(ir::Op::Parameter,
                         slot({std::move(view), state.type, state.shape, state.node}));
    }
    return expression(*state.pending, state.shape);
  }

  ir::Id expression(const PendingExpression& pending, const Shape& shape) {
    std::vector<std::uint32_t> slots;
    for (const PendingInput& input : pending.inputs) {
      PendingInput moved = input;
      moved.view.strides = broadcast_strides(call_, shape, input.view.strides, shape_);
      slots.push_back(slot(std::move(moved)));
    }
    return append(pending.program, pending.numbers,
                  [&](std::uint32_t k) { return graph_.leaf(ir::Op::Parameter, slots[k]); })[0];
  }

  /// Outputs of `program`; `parameter` maps its parameters to nodes.
  template <class F>
  std::vector<ir::Id> append(const ir::Program& program, std::span<const double> numbers,
                             const F& parameter) {
    const auto base = static_cast<std::uint32_t>(numbers_.size());
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    std::vector<ir::Id> map;
    for (const ir::Node& node : program.nodes) {
      if (node.op == ir::Op::Parameter) {
        map.push_back(parameter(node.slot()));
      } else if (node.op == ir::Op::Uniform) {
        map.push_back(graph_.leaf(ir::Op::Uniform, base + node.slot()));
      } else {
        map.push_back(graph_.copy(node, map));
      }
    }
    std::vector<ir::Id> outputs;
    for (const ir::Id output : program.outputs) outputs.push_back(map[output]);
    return outputs;
  }

  /// True if it can be fused with the expressions of its operands.
  bool fits(std::size_t most_inputs, std::size_t outputs) const {
    return inputs_.size() + outputs <= most_inputs + 1 && numbers_.size() <= most_numbers_ &&
           graph_.size() <= kMostNodes;
  }
  std::size_t number_count() const { return numbers_.size(); }

  PendingExpression finish(std::span<const ir::Id> outputs) const {
    return {graph_.extract(outputs, {.parameters = static_cast<std::uint32_t>(inputs_.size()),
                                     .uniforms = static_cast<std::uint32_t>(numbers_.size())}),
            inputs_, numbers_};
  }

 private:
  const char* call_;
  Shape shape_;
  std::size_t most_numbers_;
  ir::Graph graph_;
  std::vector<PendingInput> inputs_;
  std::vector<double> numbers_;
};

/// Derivatives of one expression by its inputs as programs; the last parameter slot is the
/// derivative by the expression's result.
const std::vector<ir::Program>& derivatives(const ir::Program& program) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, std::vector<ir::Program>>;
  const std::string key = FusedForm{.program = program, .inputs = {}}.key();
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const std::uint32_t n = program.leaves.parameters;
  std::vector<ir::Program> out;
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t slots[] = {k};
    const ir::Program pulled = autodiff::vjp(program, slots);
    ir::Graph graph;
    std::vector<ir::Id> map;
    for (const ir::Node& node : pulled.nodes)
      map.push_back(node.op == ir::Op::Seed ? graph.leaf(ir::Op::Parameter, n)
                                            : graph.copy(node, map));
    const ir::Id output = map[pulled.outputs[0]];
    out.push_back(
        graph.extract({&output, 1}, {.parameters = n + 1, .uniforms = program.leaves.uniforms}));
  }
  return known.emplace(key, std::move(out)).first->second;
}

/// The tensor of an expression's input, without its history.
Tensor input_tensor(const PendingInput& input, const Shape& shape,
                    const std::optional<Device>& device) {
  auto state = std::make_shared<TensorState>();
  state->shape = shape;
  state->type = input.type;
  state->device = device;
  state->data = input.view;
  return Tensor(std::move(state));
}

void record_expression(const Tensor& out) {
  const TensorState& own = *out.state();
  const std::shared_ptr<const PendingExpression> pending = own.pending;
  std::vector<std::shared_ptr<GradNode>> nodes;
  for (const PendingInput& input : pending->inputs) nodes.push_back(input.node);
  const bool any = std::ranges::any_of(nodes, [](const auto& node) { return node != nullptr; });
  if (!any) return;
  auto node = std::make_shared<GradNode>(own.shape, own.type);
  node->inputs = std::move(nodes);
  // A copy without history, so that histories do not refer to each other.
  auto plain = std::make_shared<PendingExpression>(*pending);
  std::vector<bool> wanted;
  for (PendingInput& input : plain->inputs) {
    wanted.push_back(input.node != nullptr);
    input.node = nullptr;
  }
  node->pull = [plain, wanted, shape = own.shape, device = own.device](const Tensor& g) {
    std::vector<Tensor> operands;
    for (const PendingInput& input : plain->inputs)
      operands.push_back(input_tensor(input, shape, device));
    operands.push_back(g);
    const std::vector<ir::Program>& programs = derivatives(plain->program);
    std::vector<Tensor> out_grads(programs.size());
    for (std::size_t k = 0; k < programs.size(); ++k) {
      if (!wanted[k]) continue;
      out_grads[k] = sum_to(compose("backward", programs[k], operands, plain->numbers),
                            plain->inputs[k].shape);
    }
    return out_grads;
  };
  out.state()->node = std::move(node);
}

Shape common_shape(const char* call, std::span<const Tensor> operands) {
  Shape shape;
  for (const Tensor& operand : operands)
    shape = broadcast(call, shape, state_of(call, operand).shape);
  check_shape(call, shape);
  return shape;
}

/// Removes inputs and numbers that the program does not read.
void drop_unused(PendingExpression& pending) {
  std::vector<std::uint32_t> inputs(pending.inputs.size(), ir::kNone);
  std::vector<std::uint32_t> numbers(pending.numbers.size(), ir::kNone);
  PendingExpression out;
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : pending.program.nodes) {
    if (node.op == ir::Op::Parameter) {
      std::uint32_t& slot = inputs[node.slot()];
      if (slot == ir::kNone) {
        slot = static_cast<std::uint32_t>(out.inputs.size());
        out.inputs.push_back(pending.inputs[node.slot()]);
      }
      map.push_back(graph.leaf(node.op, slot));
    } else if (node.op == ir::Op::Uniform) {
      std::uint32_t& slot = numbers[node.slot()];
      if (slot == ir::kNone) {
        slot = static_cast<std::uint32_t>(out.numbers.size());
        out.numbers.push_back(pending.numbers[node.slot()]);
      }
      map.push_back(graph.leaf(node.op, slot));
    } else {
      map.push_back(graph.copy(node, map));
    }
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : pending.program.outputs) outputs.push_back(map[output]);
  out.program =
      graph.extract(outputs, {.parameters = static_cast<std::uint32_t>(out.inputs.size()),
                              .uniforms = static_cast<std::uint32_t>(out.numbers.size())});
  pending = std::move(out);
}

}  // namespace

Tensor compose(const char* call, const ir::Program& program, std::span<const Tensor> operands,
               std::span<const double> numbers) {
  auto state = std::make_shared<TensorState>();
  state->shape = common_shape(call, operands);
  state->type = common_type(call, operands);
  state->device = common_device(call, operands);
  for (bool fused = true;; fused = false) {
    Composer composer(call, state->shape, state->type);
    std::vector<ir::Id> ids;
    for (const Tensor& operand : operands) {
      if (!fused && !operand.state()->number) data_of(operand);
      ids.push_back(composer.operand(operand));
    }
    const std::vector<ir::Id> outputs =
        composer.append(program, numbers, [&](std::uint32_t k) { return ids[k]; });
    // A derivative reads one more tensor: that by the result.
    const std::size_t most = wants_grad(operands) ? kMostInputs - 1 : kMostInputs;
    if (fused && !composer.fits(most, 1)) continue;
    if (composer.number_count() > most_numbers(state->type)) {
      throw Error(ErrorCode::Unsupported, std::string(call) + ": expected at most " +
                                              std::to_string(most_numbers(state->type)) +
                                              " numbers beside tensors, got " +
                                              std::to_string(composer.number_count()) +
                                              "; make those that never change literal(c)");
    }
    PendingExpression pending = composer.finish(outputs);
    drop_unused(pending);
    state->pending = std::make_shared<const PendingExpression>(std::move(pending));
    break;
  }
  Tensor out(std::move(state));
  if (wants_grad(operands)) record_expression(out);
  return out;
}

std::vector<Tensor> compute_together(const char* call, const ir::Program& program,
                                     std::span<const Tensor> operands,
                                     std::span<const double> numbers) {
  const Shape shape = common_shape(call, operands);
  const Type type = common_type(call, operands);
  const std::optional<Device> device = common_device(call, operands);
  PendingExpression pending{program, {}, {numbers.begin(), numbers.end()}};
  for (const Tensor& operand : operands) {
    View view = data_of(operand);
    view.strides = broadcast_strides(call, operand.shape(), view.strides, shape);
    pending.inputs.push_back({std::move(view), operand.type(), shape, nullptr});
  }
  std::vector<Tensor> out;
  std::vector<View> views;
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    out.push_back(make_tensor(shape, type, device));
    views.push_back(out.back().state()->data);
  }
  run_map(make_loop(shape, type, pending, device, 1), views);
  return out;
}

void evaluate_together(std::span<const Tensor> tensors) {
  std::vector<Tensor> open;
  for (const Tensor& tensor : tensors)
    if (!state_of("evaluate", tensor).data.storage) open.push_back(tensor);
  if (open.empty()) return;
  const TensorState& first = *open[0].state();
  Composer composer("evaluate", first.shape, first.type);
  std::vector<ir::Id> ids;
  bool alike = true;
  for (const Tensor& tensor : open) {
    const TensorState& state = *tensor.state();
    alike = alike && state.shape == first.shape && state.type == first.type &&
            state.device == first.device;
    if (alike) ids.push_back(composer.expression(*state.pending, state.shape));
  }
  if (open.size() > 1 && !(alike && composer.fits(kMostInputs, open.size()))) {
    for (const Tensor& tensor : open) evaluate_together({&tensor, 1});
    return;
  }
  const PendingExpression pending = composer.finish(ids);
  const FusedLoop loop = make_loop(first.shape, first.type, pending, first.device, 1);
  std::vector<View> outputs;
  for (std::size_t k = 0; k < open.size(); ++k)
    outputs.push_back(make_tensor(first.shape, first.type, first.device).state()->data);
  run_map(loop, outputs);
  for (std::size_t k = 0; k < open.size(); ++k) {
    open[k].state()->data = outputs[k];
    if (!open[k].state()->number) open[k].state()->pending = nullptr;
  }
}

}  // namespace topograd::ops::detail

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
  if (exponent == 0) return detail::full_like(a, 1);
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
