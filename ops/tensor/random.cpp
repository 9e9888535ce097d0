// Conversions between tensors and arrays, and random tensors, which are made as arrays.
#include "../array/random.hpp"
#include "../../ir/error.hpp"
#include "../../ir/hash.hpp"
#include "arrays.hpp"
#include "state.hpp"

#include <atomic>
#include <utility>

namespace topograd::ops {
namespace detail {

Tensor tensor_of(const Slice& slice, Shape shape) {
  check_shape("tensor", shape);
  if (static_cast<std::uint64_t>(element_count(shape)) != slice.size) {
    throw Error(ErrorCode::Shape, "tensor: expected " + std::to_string(element_count(shape)) +
                                      " numbers for " + to_text(shape) + ", got " +
                                      std::to_string(slice.size));
  }
  auto state = std::make_shared<TensorState>();
  state->data = {slice.storage, static_cast<std::int64_t>(slice.first), contiguous_strides(shape)};
  state->shape = std::move(shape);
  state->type = slice.type;
  state->device = slice.storage->placed();
  return Tensor(std::move(state));
}

Slice slice_of(const Tensor& tensor, Type type) {
  const TensorState& state = state_of("array_of", tensor);
  if (state.type != type) {
    throw Error(ErrorCode::InvalidArgument, "array_of: expected a tensor of " +
                                                std::string(name(type)) + ", got " +
                                                std::string(name(state.type)));
  }
  const View data = contiguous_data(tensor);
  if (state.device) data.storage->place(*state.device);
  return {data.storage, type, static_cast<std::uint64_t>(data.offset),
          static_cast<std::uint64_t>(tensor.count())};
}

}  // namespace detail

namespace {

/// Spreads seeds, so that they differ from the small numbers that callers use and from each other.
/// Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators (2014), the mixer of
/// SplitMix64.
constexpr std::uint64_t scattered(std::uint64_t z) { return ir::mix64(z + 0x9e3779b97f4a7c15ull); }
std::atomic<std::uint64_t> next_seed{scattered(0)};

/// Calls f(count, options), which returns an array of the type.
template <class F>
Tensor random(const char* call, const Shape& shape, Type type, const std::optional<Device>& device,
              const F& f) {
  check_shape(call, shape);
  if (type == Type::f16) return random(call, shape, Type::f32, device, f).to(Type::f16);
  if (!is_floating(type)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected f32, f64 or f16, got " + std::string(name(type)));
  }
  const auto count = static_cast<std::uint64_t>(element_count(shape));
  const OpOptions options{.device = device};
  Slice made = type == Type::f64 ? f(double{}, count, options) : f(float{}, count, options);
  if (device) made.storage->place(*device);
  return detail::tensor_of(made, shape);
}

}  // namespace

void seed(std::uint64_t number) { next_seed = scattered(number); }

Tensor randn(const Shape& shape, Type type, const std::optional<Device>& device) {
  return randn(shape, next_seed++, type, device);
}
Tensor rand(const Shape& shape, Type type, const std::optional<Device>& device) {
  return rand(shape, next_seed++, type, device);
}

Tensor rand(const Shape& shape, std::uint64_t seed, Type type,
            const std::optional<Device>& device) {
  return random("rand", shape, type, device, [&](auto of, std::uint64_t n, const OpOptions& o) {
    return random_uniform<decltype(of)>(n, seed, 0, o).untyped();
  });
}

Tensor randn(const Shape& shape, std::uint64_t seed, Type type,
             const std::optional<Device>& device) {
  return random("randn", shape, type, device, [&](auto of, std::uint64_t n, const OpOptions& o) {
    return random_normal<decltype(of)>(n, seed, 0, o).untyped();
  });
}

}  // namespace topograd::ops
