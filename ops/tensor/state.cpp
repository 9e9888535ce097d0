// Internal: tensors in memory: views, copies, and helpers of operations.
#include "state.hpp"

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../run/run.hpp"
#include "fused_run.hpp"

#include <algorithm>

namespace topograd::ops::detail {
namespace {

View new_data(const Shape& shape, Type type) {
  // Kernels access f16 in words.
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  return {std::make_shared<Storage>((count * size_of(type) + 3) / 4 * 4, "tensor",
                                    Elements{type, count}),
          0, contiguous_strides(shape)};
}

}  // namespace

const ir::Program& identity_program() {
  static const ir::Program& program = *new ir::Program([] {
    ir::Graph graph;
    const ir::Id x = graph.leaf(ir::Op::Parameter, 0);
    return graph.extract({&x, 1}, {.parameters = 1});
  }());
  return program;
}

TensorState& state_of(const char* call, const Tensor& tensor) {
  if (!tensor)
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected a tensor, got none");
  return *tensor.state();
}

const View& data_of(const Tensor& tensor) {
  TensorState& state = state_of("read", tensor);
  if (!state.data.storage) evaluate_together({&tensor, 1});
  return state.data;
}

View contiguous_data(const Tensor& tensor) {
  const View& data = data_of(tensor);
  const TensorState& state = *tensor.state();
  if (is_contiguous(state.shape, data.strides)) return data;
  const PendingExpression copy{identity_program(), {{data, state.type, state.shape, nullptr}}, {}};
  const Type type = state.type == Type::f16 ? Type::f32 : state.type;
  const FusedLoop loop = make_loop(state.shape, type, copy, state.device, 1);
  View out = new_data(state.shape, type);
  run_map(loop, {&out, 1});
  if (type == state.type) return out;
  auto wide = std::make_shared<TensorState>();
  wide->shape = state.shape;
  wide->device = state.device;
  wide->data = out;
  return Tensor(std::move(wide)).to(Type::f16).state()->data;
}

Tensor make_tensor(Shape shape, Type type, std::optional<Device> device) {
  auto state = std::make_shared<TensorState>();
  state->data = new_data(shape, type);
  state->shape = std::move(shape);
  state->type = type;
  state->device = std::move(device);
  return Tensor(std::move(state));
}

Tensor make_view(const Tensor& of, Shape shape, View view) {
  auto state = std::make_shared<TensorState>();
  state->shape = std::move(shape);
  state->type = of.type();
  state->device = of.state()->device;
  state->data = std::move(view);
  return Tensor(std::move(state));
}

Type common_type(const char* call, std::span<const Tensor> tensors) {
  std::optional<Type> found;
  for (const Tensor& tensor : tensors) {
    const TensorState& state = state_of(call, tensor);
    if (state.number) continue;
    const Type type = state.type == Type::f16 ? Type::f32 : state.type;
    if (found && *found != type) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected tensors of one type, got " +
                      std::string(name(*found)) + " and " + std::string(name(type)));
    }
    found = type;
  }
  return found.value_or(Type::f32);
}

std::optional<Device> common_device(const char* call, std::span<const Tensor> tensors) {
  std::optional<Device> found;
  for (const Tensor& tensor : tensors) {
    const std::optional<Device>& device = state_of(call, tensor).device;
    if (!device) continue;
    if (found && *found != *device) {
      throw Error(ErrorCode::InvalidArgument, std::string(call) +
                                                  ": expected tensors on one device, got " +
                                                  found->name() + " and " + device->name());
    }
    found = device;
  }
  return found;
}

Tensor place_slice(const Tensor& tensor, const Shape& shape, std::size_t axis, std::int64_t begin,
                   std::int64_t step) {
  const TensorState& state = *tensor.state();
  Tensor out = full(shape, 0, tensor.type());
  if (state.device) out = out.to(*state.device);
  View to = data_of(out);
  to.offset += begin * to.strides[axis];
  to.strides[axis] *= step;
  const View& from = data_of(tensor);
  const Strides both[] = {from.strides, to.strides};
  LoopNest nest = loop_nest(state.shape, both);
  if (nest.shape.empty()) nest = {{1}, {{0}, {0}}};
  View source = from;
  source.strides = nest.strides[0];
  const FusedLoop loop{.shape = nest.shape,
                       .type = tensor.type(),
                       .program = &identity_program(),
                       .inputs = {{source, tensor.type()}},
                       .numbers = {},
                       .device = state.device};
  run_map(loop, {&to, 1}, &nest.strides[1]);
  return out;
}

std::uint64_t extent(const Shape& shape, const Strides& strides) {
  std::uint64_t last = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return 0;
    last += static_cast<std::uint64_t>((shape[k] - 1) * strides[k]);
  }
  return last + 1;
}

Argument argument(OpBackend& backend, const View& view, std::uint64_t count, Type type,
                  Access access, bool keep) {
  const bool half = type == Type::f16;
  const std::uint64_t size = size_of(type);
  std::uint64_t begin = static_cast<std::uint64_t>(view.offset) * size;
  std::uint64_t end = begin + count * size;
  if (half) {  // complete words
    begin = begin / 4 * 4;
    end = (end + 3) / 4 * 4;
  }
  if (end - begin > backend.limits().binding_bytes) {
    throw Error(ErrorCode::Unsupported, "tensor: expected at most " +
                                            std::to_string(backend.limits().binding_bytes) +
                                            " bytes a tensor on " + backend.facts().name +
                                            ", got " + std::to_string(end - begin));
  }
  return {.memory = access == Access::read ? view.storage->read_on(backend)
                                           : view.storage->write_on(backend, keep),
          .offset = begin,
          .bytes = end - begin,
          .element = half ? 4u : static_cast<std::uint32_t>(size),
          .access = access};
}

void check_index_range(const char* call, Type type, std::int64_t entries) {
  const std::int64_t exact = type == Type::f16 ? 1 << 11 : 1 << 24;
  if (type == Type::f64 || entries <= exact) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": expected at most " + std::to_string(exact) + " entries of " +
                  std::string(name(type)) + ", got " + std::to_string(entries));
}

std::optional<Device> runs_on(const std::optional<Device>& placed) {
  return scope_device() ? scope_device() : placed;
}

void run_op(const OpCall& call, const std::optional<Device>& device) {
  run(call, {.device = runs_on(device)});
}

}  // namespace topograd::ops::detail
