// Creates, reads and views tensors.
#include "tensor.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../backend/kernel_store.hpp"
#include "state.hpp"

namespace topograd::ops::detail {

/// Rounds to another floating-point type (to nearest, ties to even; f16 beyond 65504 becomes
/// infinite). Differentiable.
Tensor cast(const Tensor& from, Type type);

}  // namespace topograd::ops::detail

namespace topograd::ops {

using detail::state_of;
using detail::TensorState;
using detail::View;

namespace {

template <class T>
Tensor from_numbers(const char* call, std::span<const T> numbers, Shape shape, Type type) {
  check_shape(call, shape);
  if (numbers.size() != static_cast<std::size_t>(element_count(shape))) {
    throw Error(ErrorCode::Shape, std::string(call) + ": expected " +
                                      std::to_string(element_count(shape)) + " numbers for " +
                                      to_text(shape) + ", got " + std::to_string(numbers.size()));
  }
  if (!is_floating(type)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected f32, f64 or f16, got " + std::string(name(type)));
  }
  const bool half = type == Type::f16;
  const Tensor out = detail::make_tensor(std::move(shape), half ? Type::f32 : type, {});
  const View& data = out.state()->data;
  if (type == Type::f64) {
    std::ranges::copy(numbers, detail::host_write<double>(data));
  } else {
    std::ranges::transform(numbers, detail::host_write<float>(data),
                           [](T number) { return static_cast<float>(number); });
  }
  return half ? out.to(Type::f16) : out;
}

/// An expression without tensors.
std::shared_ptr<const detail::PendingExpression> pending_number(double number) {
  static const ir::Program& kNumber = *new ir::Program([] {
    ir::Graph graph;
    const ir::Id id = graph.leaf(ir::Op::Uniform, 0);
    return graph.extract({&id, 1}, {.uniforms = 1});
  }());
  return std::make_shared<detail::PendingExpression>(
      detail::PendingExpression{kNumber, {}, {number}});
}

/// True if it is a constant that was not computed.
bool is_pending_number(const TensorState& state) {
  return !state.data.storage && state.pending && state.pending->inputs.empty();
}

}  // namespace

Tensor detail::full_like(const Tensor& tensor, double number) {
  const TensorState& own = state_of("full", tensor);
  const Tensor out = full(own.shape, number, own.type == Type::f16 ? Type::f32 : own.type);
  return own.device ? out.to(*own.device) : out;
}

std::optional<Tensor> detail::reshaped_number(const Tensor& tensor, const Shape& shape) {
  const TensorState& own = state_of("reshape", tensor);
  if (!is_pending_number(own) || own.number || own.node) return std::nullopt;
  auto state = std::make_shared<TensorState>(own);
  state->shape = shape;
  return Tensor(std::move(state));
}

Tensor::Tensor(double number) : state_(std::make_shared<TensorState>()) {
  state_->number = true;
  state_->pending = pending_number(number);
}

const Shape& Tensor::shape() const { return state_of("shape", *this).shape; }
std::int64_t Tensor::size(std::int64_t axis) const {
  return shape()[checked_axis("size", shape(), axis)];
}
Type Tensor::type() const { return state_of("type", *this).type; }
std::optional<Device> Tensor::placed() const { return state_of("placed", *this).device; }

const Tensor& Tensor::evaluate() const {
  state_of("evaluate", *this);
  detail::data_of(*this);
  return *this;
}

const Tensor& Tensor::begin_read() const {
  state_of("begin_read", *this);
  detail::data_of(*this).storage->begin_read();
  return *this;
}

std::vector<double> Tensor::values() const {
  state_of("values", *this);
  if (type() == Type::f16) return to(Type::f32).values();
  const View data = detail::contiguous_data(*this);
  const auto n = static_cast<std::size_t>(count());
  if (n == 0) return {};
  if (type() == Type::f64) {
    const double* from = detail::host_read<double>(data);
    return {from, from + n};
  }
  const float* from = detail::host_read<float>(data);
  return {from, from + n};
}

std::vector<float> Tensor::floats() const {
  if (state_of("floats", *this).type == Type::f32) {
    const View data = detail::contiguous_data(*this);
    if (count() == 0) return {};
    const float* from = detail::host_read<float>(data);
    return {from, from + count()};
  }
  const std::vector<double> wide = values();
  std::vector<float> out(wide.size());
  std::ranges::transform(wide, out.begin(), [](double x) { return static_cast<float>(x); });
  return out;
}

double Tensor::item() const {
  state_of("item", *this);
  if (count() != 1) {
    throw Error(ErrorCode::Shape, "item: expected one number, got " + to_text(shape()));
  }
  return values()[0];
}

Tensor Tensor::to(const Device& device) const {
  const TensorState& own = state_of("to", *this);
  if (own.type == Type::f64 && !device.facts().float64) {
    throw Error(ErrorCode::Unsupported,
                "to: expected a device with float64 for a tensor of f64, "
                "got " +
                    device.name());
  }
  if (own.device == device) return *this;
  if (!own.node && (own.number || !is_pending_number(own))) detail::data_of(*this);
  auto state = std::make_shared<TensorState>(own);
  state->device = device;
  state->node = nullptr;
  Tensor out(std::move(state));
  detail::record(out, {this, 1}, [](const Tensor& g) { return std::vector{g}; });
  return out;
}

Tensor Tensor::to(Type type) const { return detail::cast(*this, type); }

Tensor Tensor::reshape(Shape to) const {
  state_of("reshape", *this);
  if (std::ranges::count(to, -1) > 1) {
    throw Error(ErrorCode::InvalidArgument,
                "reshape: expected at most one size of -1, got " + to_text(to));
  }
  const auto open = std::ranges::find(to, -1);
  if (open != to.end()) {
    *open = 1;
    check_shape("reshape", to);
    const std::int64_t rest = element_count(to);
    *open = rest > 0 ? count() / rest : 0;
  }
  check_shape("reshape", to);
  if (element_count(to) != count()) {
    if (open != to.end()) *open = -1;
    throw Error(ErrorCode::Shape, "reshape: expected a shape of " + std::to_string(count()) +
                                      " elements for " + to_text(shape()) + ", got " + to_text(to));
  }
  if (auto number = detail::reshaped_number(*this, to)) return *std::move(number);
  const View& data = detail::data_of(*this);
  const auto strides = reshaped_strides(shape(), data.strides, to);
  View view = strides ? View{data.storage, data.offset, *strides} : detail::contiguous_data(*this);
  if (!strides) view.strides = contiguous_strides(to);
  Tensor out = detail::make_view(*this, std::move(to), std::move(view));
  detail::record(out, {this, 1},
                 [from = shape()](const Tensor& g) { return std::vector{g.reshape(from)}; });
  return out;
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  state_of("transpose", *this);
  std::vector<std::int64_t> axes(rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[checked_axis("transpose", shape(), a)],
            axes[checked_axis("transpose", shape(), b)]);
  return permute(axes);
}

Tensor Tensor::permute(const std::vector<std::int64_t>& axes) const {
  state_of("permute", *this);
  const View& data = detail::data_of(*this);
  Shape to(rank());
  View view{data.storage, data.offset, Strides(rank())};
  std::vector<std::int64_t> back(rank(), -1);
  bool complete = axes.size() == rank();
  for (std::size_t k = 0; complete && k < rank(); ++k) {
    const std::size_t from = checked_axis("permute", shape(), axes[k]);
    complete = back[from] < 0;
    back[from] = static_cast<std::int64_t>(k);
    to[k] = shape()[from];
    view.strides[k] = data.strides[from];
  }
  if (!complete) {
    throw Error(ErrorCode::InvalidArgument, "permute: expected each axis of " + to_text(shape()) +
                                                " once, got " + to_text(axes));
  }
  Tensor out = detail::make_view(*this, std::move(to), std::move(view));
  detail::record(out, {this, 1}, [back](const Tensor& g) { return std::vector{g.permute(back)}; });
  return out;
}

Tensor Tensor::slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
                     std::int64_t step) const {
  state_of("slice", *this);
  const std::size_t at = checked_axis("slice", shape(), axis);
  if (begin < 0 || end < begin || end > shape()[at] || step <= 0) {
    throw Error(ErrorCode::InvalidArgument,
                "slice: expected 0 <= begin <= end <= " + std::to_string(shape()[at]) +
                    " and step > 0, got " + std::to_string(begin) + ", " + std::to_string(end) +
                    " and " + std::to_string(step));
  }
  step = std::min(step, std::max<std::int64_t>(1, end - begin));  // longer steps are equivalent
  const View& data = detail::data_of(*this);
  Shape to = shape();
  to[at] = (end - begin + step - 1) / step;
  View view{data.storage, data.offset + begin * data.strides[at], data.strides};
  view.strides[at] *= step;
  Tensor out = detail::make_view(*this, std::move(to), std::move(view));
  detail::record(out, {this, 1}, [from = shape(), at, begin, step](const Tensor& g) {
    return std::vector{detail::place_slice(g, from, at, begin, step)};
  });
  return out;
}

Tensor Tensor::broadcast_to(const Shape& to) const {
  state_of("broadcast_to", *this);
  check_shape("broadcast_to", to);
  if (auto number = detail::reshaped_number(*this, to)) {
    broadcast_strides("broadcast_to", shape(), contiguous_strides(shape()), to);  // throws
    return *std::move(number);
  }
  const View& data = detail::data_of(*this);
  View view{data.storage, data.offset,
            broadcast_strides("broadcast_to", shape(), data.strides, to)};
  Tensor out = detail::make_view(*this, to, std::move(view));
  detail::record(out, {this, 1}, [from = shape()](const Tensor& g) {
    return std::vector{detail::sum_to(g, from)};
  });
  return out;
}

Tensor tensor(std::span<const double> numbers, Shape shape, Type type) {
  return from_numbers("tensor", numbers, std::move(shape), type);
}
Tensor tensor(std::span<const float> numbers, Shape shape) {
  return from_numbers("tensor", numbers, std::move(shape), Type::f32);
}
Tensor tensor(std::initializer_list<double> numbers, Shape shape, Type type) {
  return from_numbers("tensor", std::span(numbers.begin(), numbers.size()), std::move(shape), type);
}

Tensor full(Shape shape, double number, Type type) {
  check_shape("full", shape);
  if (type == Type::f16) return full(std::move(shape), number).to(Type::f16);
  if (!is_floating(type)) {
    throw Error(ErrorCode::InvalidArgument,
                "full: expected f32, f64 or f16, got " + std::string(name(type)));
  }
  auto state = std::make_shared<TensorState>();
  state->shape = std::move(shape);
  state->type = type;
  state->pending = pending_number(number);
  return Tensor(std::move(state));
}

Tensor arange(std::int64_t count, Type type) {
  check_shape("arange", {count});
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return from_numbers("arange", std::span<const double>(numbers), {count}, type);
}

}  // namespace topograd::ops

namespace topograd::ops::detail {
namespace {

template <class F>
void with_stored(Type type, F&& f) {
  if (type == Type::f64) return f(double{});
  if (type == Type::f16) return f(Eigen::half{});
  f(float{});
}

void cast_on_cpu(const View& from, Type from_type, const View& to, Type to_type, std::size_t n) {
  with_stored(from_type, [&]<class From>(From) {
    with_stored(to_type, [&]<class To>(To) {
      const From* source = host_read<From>(from);
      std::transform(source, source + n, host_write<To>(to), [](From x) {
        if constexpr (std::is_same_v<To, Eigen::half>) return To(static_cast<float>(x));
        if constexpr (std::is_same_v<From, Eigen::half>) return static_cast<To>(float(x));
        return static_cast<To>(x);
      });
    });
  });
}

/// Two elements per invocation, because they may share a word.
ComputeKernel make_cast(Type from, Type to) {
  const auto stored = [](Type type) {
    return std::string(type == Type::f16 ? "uint" : glsl_name(type));
  };
  KernelParts parts{.name = "cast_" + std::string(name(from)) + "_" + std::string(name(to))};
  parts.arguments = {{"source", stored(from), Access::read}, {"target", stored(to), Access::write}};
  parts.words = {"count", "upper"};
  const std::string wide = from == Type::f64 && to == Type::f64 ? "double" : "float";
  parts.functions = wide + " at(uint i) {\n";
  if (from == Type::f16) {
    parts.functions +=
        "  uint e = i + upper;\n"
        "  vec2 pair = unpackHalf2x16(source(e >> 1u));\n"
        "  return (e & 1u) == 0u ? pair.x : pair.y;\n";
  } else {
    parts.functions += "  return " + wide + "(source(i));\n";
  }
  parts.functions += "}\n";
  parts.body =
      "  uint stride = gl_NumWorkGroups.x * 256u;\n"
      "  for (uint pair = gl_GlobalInvocationID.x; 2u * pair < count; pair += stride) {\n"
      "    uint i = 2u * pair;\n"
      "    bool two = i + 1u < count;\n";
  parts.body += to == Type::f16
                    ? "    target(pair) = packHalf2x16(vec2(at(i), two ? at(i + 1u) : 0.0));\n"
                    : "    target(i) = " + std::string(glsl_name(to)) +
                          "(at(i));\n    if (two) target(i + 1u) = " + std::string(glsl_name(to)) +
                          "(at(i + 1u));\n";
  parts.body += "  }\n";
  return make_kernel(parts);
}

const ComputeKernel& cast_kernel(Type from, Type to) {
  const std::string key = "cast" + std::string(name(from)) + std::string(name(to));
  return kernel_for(key, [&] { return make_cast(from, to); });
}

}  // namespace

Tensor cast(const Tensor& from, Type type) {
  const TensorState& own = state_of("to", from);
  if (!is_floating(type)) {
    throw Error(ErrorCode::InvalidArgument,
                "to: expected f32, f64 or f16, got " + std::string(name(type)));
  }
  if (own.type == type) return from;
  const View data = contiguous_data(from);
  const auto count = static_cast<std::uint64_t>(from.count());
  Tensor out = make_tensor(own.shape, type, own.device);
  const View to = out.state()->data;
  const auto on_device = [&](OpBackend& backend) {
    const Argument arguments[] = {argument(backend, data, count, own.type, Access::read),
                                  argument(backend, to, count, type, Access::write)};
    const std::uint32_t words[] = {
        static_cast<std::uint32_t>(count),
        static_cast<std::uint32_t>(own.type == Type::f16 ? data.offset & 1 : 0)};
    const std::uint64_t groups = ((count + 1) / 2 + 255) / 256;
    backend.launch({.kernel = &cast_kernel(own.type, type),
                    .arguments = arguments,
                    .words = words,
                    .groups = {static_cast<std::uint32_t>(std::min<std::uint64_t>(
                        groups, std::min(backend.limits().groups, 1u << 16)))}});
  };
  const bool wide = own.type == Type::f64 || type == Type::f64;
  if (count > 0) {
    run_op({.op = Operation::Map,
            .kernel = key_of("cast", own.type, type),
            .size = count,
            .work = {.operations = count,
                     .bytes_read = count * size_of(own.type),
                     .bytes_written = count * size_of(type)},
            .inputs = {data.storage},
            .outputs = {to.storage},
            .on_cpu = [&] { cast_on_cpu(data, own.type, to, type, count); },
            .on_device = on_device,
            .needs_float64 = wide},
           own.device);
  }
  record(out, {&from, 1}, [back = own.type](const Tensor& g) {
    return std::vector{g.to(back == Type::f16 ? Type::f32 : back)};
  });
  return out;
}

}  // namespace topograd::ops::detail
