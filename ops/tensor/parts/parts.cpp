// Concatenation and splitting of tensors.
#include "../operations.hpp"

#include "../../../ir/error.hpp"
#include "../../backend/kernel_store.hpp"
#include "../autograd.hpp"
#include "../state.hpp"
#include "units.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace topograd::ops {
namespace {

/// A tensor within a concatenation: `inner` elements of each of the result's rows, from `begin` on.
struct Piece {
  detail::View source;
  std::uint64_t begin = 0, inner = 0;
};

struct Joining {
  std::vector<Piece> pieces;
  detail::View target;
  Type type = Type::f32;
  std::uint64_t rows = 0, row = 0;  ///< elements per row
};

void join_on_cpu(const Joining& j) {
  const std::size_t size = size_of(j.type);
  std::byte* to = j.target.storage->write_host(false);
  for (const Piece& piece : j.pieces) {
    const std::byte* from =
        piece.source.storage->read_host() + static_cast<std::size_t>(piece.source.offset) * size;
    for (std::uint64_t row = 0; row < j.rows; ++row)
      std::memcpy(to + (row * j.row + piece.begin) * size, from + row * piece.inner * size,
                  piece.inner * size);
  }
}

std::uint32_t unit_of(const Joining& j, const Piece& piece) {
  return detail::unit_bytes(
      j.type, {j.row, piece.begin, piece.inner, static_cast<std::uint64_t>(piece.source.offset)});
}

void join_on_device(OpBackend& backend, const Joining& j) {
  for (const Piece& piece : j.pieces) {
    const std::uint32_t unit = unit_of(j, piece);
    const ComputeKernel& kernel =
        kernel_for(KernelFile::place, j.type, {{"U", detail::unit_type(unit)}});
    const std::uint64_t count = j.rows * piece.inner;
    detail::View target = j.target;
    target.offset = static_cast<std::int64_t>(piece.begin);
    const std::uint64_t reached = (j.rows - 1) * j.row + piece.inner;
    Argument arguments[] = {
        detail::argument(backend, piece.source, count, j.type, Access::read),
        detail::argument(backend, target, reached, j.type, Access::write, true)};
    for (Argument& argument : arguments) argument.element = unit;
    const auto units = [&](std::uint64_t elements) {
      return static_cast<std::uint32_t>(elements * size_of(j.type) / unit);
    };
    const std::uint32_t words[] = {units(count), units(piece.inner), units(j.row)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, words[0])});
  }
}

/// The type of the result: f16 if all tensors are f16.
Type joined_type(const char* call, const std::vector<Tensor>& tensors) {
  const Type type = detail::common_type(call, tensors);
  const bool halves =
      std::ranges::all_of(tensors, [](const Tensor& t) { return t.type() == Type::f16; });
  return halves ? Type::f16 : type;
}

std::vector<Tensor> of_type(const std::vector<Tensor>& tensors, Type type) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.to(type));
  return out;
}

Shape joined_shape(const char* call, const std::vector<Tensor>& tensors, std::size_t axis) {
  Shape shape = tensors.front().shape();
  for (const Tensor& t : std::span(tensors).subspan(1)) {
    Shape same = t.shape();
    const bool ranks = same.size() == shape.size();
    const std::int64_t size = ranks ? same[axis] : 0;
    if (ranks) same[axis] = shape[axis];
    if (same != shape) {
      throw Error(ErrorCode::Shape,
                  std::string(call) + ": expected shapes that agree but for axis " +
                      std::to_string(axis) + ", got " + to_text(tensors.front().shape()) + " and " +
                      to_text(t.shape()));
    }
    shape[axis] += size;
  }
  check_shape(call, shape);
  return shape;
}

void run_joining(const Joining& j, const std::optional<Device>& device) {
  std::vector<std::shared_ptr<Storage>> inputs;
  for (const Piece& piece : j.pieces) inputs.push_back(piece.source.storage);
  const std::uint64_t count = j.rows * j.row, bytes = count * size_of(j.type);
  detail::run_op({.op = Operation::Map,
                  .kernel = key_of("concat", size_of(j.type)),
                  .size = count,
                  .work = {.operations = 0, .bytes_read = bytes, .bytes_written = bytes},
                  .inputs = std::move(inputs),
                  .outputs = {j.target.storage},
                  .on_cpu = [&] { join_on_cpu(j); },
                  .on_device = [&](OpBackend& backend) { join_on_device(backend, j); },
                  .needs_float64 = j.type == Type::f64},
                 device);
}

std::uint64_t product(std::span<const std::int64_t> sizes) {
  return static_cast<std::uint64_t>(element_count(Shape(sizes.begin(), sizes.end())));
}

/// Joins tensors of the result's type.
Tensor join(const char* call, const std::vector<Tensor>& tensors, std::int64_t from_axis) {
  const std::size_t axis = checked_axis(call, tensors.front().shape(), from_axis);
  const Shape shape = joined_shape(call, tensors, axis);
  const auto device = detail::common_device(call, tensors);
  const Type type = tensors.front().type();
  const std::uint64_t after = product(std::span(shape).subspan(axis + 1));
  Tensor out = detail::make_tensor(shape, type, device);
  Joining j{.pieces = {},
            .target = out.state()->data,
            .type = type,
            .rows = product(std::span(shape).first(axis)),
            .row = static_cast<std::uint64_t>(shape[axis]) * after};
  std::uint64_t begin = 0;
  std::vector<std::int64_t> sizes;
  for (const Tensor& t : tensors) {
    sizes.push_back(t.shape()[axis]);
    const std::uint64_t inner = static_cast<std::uint64_t>(t.shape()[axis]) * after;
    if (t.count() > 0) j.pieces.push_back({detail::contiguous_data(t), begin, inner});
    begin += inner;
  }
  // Halves that share words with neighbours are converted to f32 and back, which is exact.
  const bool apart =
      std::ranges::all_of(j.pieces, [&](const Piece& p) { return unit_of(j, p) >= 4; });
  if (!apart) {
    const Tensor wide = no_grad([&] { return join(call, of_type(tensors, Type::f32), from_axis); });
    out.state()->data = wide.to(type).state()->data;
  } else if (!j.pieces.empty()) {
    run_joining(j, device);
  }
  detail::record(out, tensors, [sizes, axis](const Tensor& g) {
    return split(g, sizes, static_cast<std::int64_t>(axis));
  });
  return out;
}

void expect_some(const char* call, const std::vector<Tensor>& tensors) {
  if (tensors.empty())
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected a tensor at least, got none");
}

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis) {
  expect_some("concat", tensors);
  return join("concat", of_type(tensors, joined_type("concat", tensors)), axis);
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  expect_some("stack", tensors);
  const Type type = joined_type("stack", tensors);
  Shape shape = tensors.front().shape();
  for (const Tensor& t : tensors) {
    if (t.shape() == shape) continue;
    throw Error(ErrorCode::Shape, "stack: expected tensors of one shape, got " + to_text(shape) +
                                      " and " + to_text(t.shape()));
  }
  shape.push_back(1);
  const std::size_t at = checked_axis("stack", shape, axis);
  shape.pop_back();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  std::vector<Tensor> slabs;
  for (const Tensor& t : of_type(tensors, type)) slabs.push_back(t.reshape(shape));
  return join("stack", slabs, static_cast<std::int64_t>(at));
}

std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis) {
  detail::state_of("split", a);
  const auto at = static_cast<std::int64_t>(checked_axis("split", a.shape(), axis));
  std::int64_t left = a.size(at);
  bool fits = true;
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    if (fits) left -= size;
  }
  if (!fits || left != 0) {
    throw Error(ErrorCode::Shape, "split: expected sizes >= 0 that sum to " +
                                      std::to_string(a.size(at)) + ", got " + to_text(sizes));
  }
  std::vector<Tensor> out;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    out.push_back(a.slice(at, begin, begin + size));
    begin += size;
  }
  return out;
}

}  // namespace topograd::ops
