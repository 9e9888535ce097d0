// Parts of tensors: slices, joins, elements by index, and their gradients.
#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "../../backend/type.hpp"
#include "../autograd.hpp"
#include "../operations.hpp"
#include "../state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

/// Bytes of the largest unit that divides all of these numbers of elements: 16, 8 or 4; 2 if f16
/// elements do not fill words.
std::uint32_t unit_bytes(Type type, std::initializer_list<std::uint64_t> elements) {
  std::uint64_t all = 16;
  for (const std::uint64_t count : elements) all |= count * size_of(type);
  return 1u << std::countr_zero(all);
}
/// Its type in GLSL.
constexpr const char* unit_type(std::uint32_t unit) {
  return unit == 4 ? "uint" : unit == 8 ? "uvec2" : "uvec4";
}

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
  return unit_bytes(
      j.type, {j.row, piece.begin, piece.inner, static_cast<std::uint64_t>(piece.source.offset)});
}

void join_on_device(OpBackend& backend, const Joining& j) {
  for (const Piece& piece : j.pieces) {
    const std::uint32_t unit = unit_of(j, piece);
    const ComputeKernel& kernel = kernel_for(KernelFile::place, j.type, {{"U", unit_type(unit)}});
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

namespace {

/// Entries of an axis, in parts of `entries` times `inner` elements.
struct Taking {
  detail::View indices;
  Type indices_type = Type::f32;
  std::uint64_t parts = 0, entries = 0, inner = 0, taken = 0;

  std::uint64_t count() const { return parts * taken * inner; }
};

/// Calls f with the begin of each result row and of its entry (empty for an invalid index).
template <class F>
void for_rows(const Taking& t, const F& f) {
  const auto walk = [&](const auto* indices) {
    for (std::uint64_t row = 0; row < t.parts * t.taken; ++row) {
      const auto index = static_cast<double>(indices[row % t.taken]);
      const bool there = index >= 0 && index < static_cast<double>(t.entries);
      f(row * t.inner,
        there ? std::optional((row / t.taken * t.entries + static_cast<std::uint64_t>(index)) *
                              t.inner)
              : std::nullopt);
    }
  };
  t.indices_type == Type::f64 ? walk(detail::host_read<double>(t.indices))
                              : walk(detail::host_read<float>(t.indices));
}

void take_on_cpu(const Taking& t, const detail::View& source, const detail::View& target,
                 Type type) {
  const std::size_t size = size_of(type), bytes = t.inner * size;
  const std::byte* from =
      source.storage->read_host() + static_cast<std::size_t>(source.offset) * size;
  std::byte* to = target.storage->write_host(false);
  for_rows(t, [&](std::uint64_t row, std::optional<std::uint64_t> entry) {
    if (entry) {
      std::memcpy(to + row * size, from + *entry * size, bytes);
    } else {
      std::memset(to + row * size, 0, bytes);
    }
  });
}

Argument index_argument(OpBackend& backend, const Taking& t) {
  return detail::argument(backend, t.indices, t.taken, t.indices_type, Access::read);
}

/// Launches a kernel whose items are units of `per` elements.
void launch_taking(OpBackend& backend, const Taking& t, const ComputeKernel& kernel,
                   std::span<const Argument> arguments, std::uint64_t per) {
  const std::uint64_t items = t.count() / per;
  const std::uint32_t words[] = {word(items), word(t.inner / per), word(t.taken), word(t.entries)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, items)});
}

void take_on_device(OpBackend& backend, const Taking& t, const detail::View& source,
                    const detail::View& target, Type type) {
  const std::uint32_t unit = unit_bytes(type, {t.inner, static_cast<std::uint64_t>(source.offset)});
  const ComputeKernel& kernel =
      kernel_for(KernelFile::take, t.indices_type, {{"U", unit_type(unit)}});
  Argument arguments[] = {
      detail::argument(backend, source, t.parts * t.entries * t.inner, type, Access::read),
      index_argument(backend, t),
      detail::argument(backend, target, t.count(), type, Access::write)};
  arguments[0].element = arguments[2].element = unit;
  launch_taking(backend, t, kernel, arguments, unit / size_of(type));
}

void sources_on_device(OpBackend& backend, const Taking& t, const Slice& sources) {
  const ComputeKernel& kernel = kernel_for(KernelFile::taken_places, t.indices_type);
  const Argument arguments[] = {index_argument(backend, t), sources.writes(backend)};
  launch_taking(backend, t, kernel, arguments, 1);
}

/// The source of each number of the result; ~0 for none.
Slice sources_of(const Taking& t, const std::optional<Device>& device) {
  Slice sources = make_slice(Type::u32, t.count(), "places");
  const auto on_cpu = [&] {
    std::uint32_t* to = sources.write<std::uint32_t>();
    for_rows(t, [&](std::uint64_t row, std::optional<std::uint64_t> entry) {
      for (std::uint64_t i = 0; i < t.inner; ++i)
        to[row + i] = entry ? static_cast<std::uint32_t>(*entry + i) : ~0u;
    });
  };
  detail::run_op({.op = Operation::Map,
                  .kernel = key_of("taken_places"),
                  .size = t.count(),
                  .work = {.operations = t.count(),
                           .bytes_read = t.taken * size_of(t.indices_type),
                           .bytes_written = sources.bytes(),
                           .reads = static_cast<double>(t.count() * size_of(t.indices_type))},
                  .inputs = {t.indices.storage},
                  .outputs = {sources.storage},
                  .on_cpu = on_cpu,
                  .on_device = [&](OpBackend& backend) { sources_on_device(backend, t, sources); },
                  .needs_float64 = t.indices_type == Type::f64},
                 device);
  return sources;
}

/// The transpose of take: adds g to the entries.
Tensor put_taken(const Taking& t, const Tensor& g, const Shape& shape) {
  const std::optional<Device> device = g.placed();
  Tensor out = full(shape, 0, g.type());
  if (device) out = out.to(*device);
  if (t.count() == 0) return out;
  const auto slice = [](const detail::View& view, Type type, std::uint64_t size) {
    return Slice{view.storage, type, static_cast<std::uint64_t>(view.offset), size};
  };
  scatter_into(Combine::add, slice(detail::contiguous_data(g), g.type(), t.count()),
               sources_of(t, device),
               slice(detail::data_of(out), g.type(), static_cast<std::uint64_t>(out.count())),
               IndexCheck::none, {.device = detail::runs_on(device)});
  return out;
}

void check_indices(const char* call, const Tensor& indices, std::int64_t entries) {
  const std::vector<double> all = indices.values();
  for (std::size_t k = 0; k < all.size(); ++k) {
    const double index = all[k];
    if (index >= 0 && index < static_cast<double>(entries) && index == std::floor(index)) continue;
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": index " + std::to_string(k) +
                                                " is " + ir::print_number(index) +
                                                ", expected a whole number in [0, " +
                                                std::to_string(entries) + ")");
  }
}

/// f16 numbers that do not fill words are converted to f32 and back, which is exact.
bool is_taken_wide(const Taking& t, Type type, const detail::View& source) {
  return unit_bytes(type, {t.inner, static_cast<std::uint64_t>(source.offset)}) < 4;
}

void run_taking(const Taking& t, const detail::View& source, const Tensor& out) {
  const detail::View target = out.state()->data;
  const Type type = out.type();
  const bool wide = t.indices_type == Type::f64;
  const std::uint64_t rows = t.parts * std::min(t.taken, t.entries) * t.inner * size_of(type);
  const std::uint64_t written = t.count() * size_of(type);
  detail::run_op(
      {.op = Operation::Gather,
       .kernel = key_of("take", size_of(type)),
       .size = t.count(),
       .work = {.operations = 0,
                .bytes_read = t.taken * size_of(t.indices_type) + rows,
                .bytes_written = written,
                .reads = static_cast<double>(t.taken * size_of(t.indices_type) + written),
                .pattern = runtime::hybrid::MemoryPattern::gather},
       .inputs = {source.storage, t.indices.storage},
       .outputs = {target.storage},
       .on_cpu = [&] { take_on_cpu(t, source, target, type); },
       .on_device = [&](OpBackend& backend) { take_on_device(backend, t, source, target, type); },
       .needs_float64 = wide || type == Type::f64},
      out.placed());
}

Tensor taken(const char* name, const Tensor& a, const Tensor& indices, std::int64_t axis,
             IndexCheck check) {
  const Tensor both[] = {a, indices};
  const std::optional<Device> device = detail::common_device(name, both);
  const std::size_t at = checked_axis(name, a.shape(), axis);
  const std::int64_t entries = a.shape()[at];
  detail::check_index_range(name, indices.type(), entries);
  if (check == IndexCheck::throws) check_indices(name, indices, entries);
  Shape shape = a.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), indices.shape().begin(),
               indices.shape().end());
  check_shape(name, shape);
  const Tensor numbers = indices.type() == Type::f16 ? indices.to(Type::f32) : indices;
  const auto product = [&](std::size_t begin, std::size_t end) {
    std::uint64_t out = 1;
    for (std::size_t k = begin; k < end; ++k) out *= static_cast<std::uint64_t>(a.shape()[k]);
    return out;
  };
  const Taking t{.indices = detail::contiguous_data(numbers),
                 .indices_type = numbers.type(),
                 .parts = product(0, at),
                 .entries = static_cast<std::uint64_t>(entries),
                 .inner = product(at + 1, a.rank()),
                 .taken = static_cast<std::uint64_t>(indices.count())};
  Tensor out = detail::make_tensor(shape, a.type(), device);
  if (out.count() > 0) {
    const detail::View source = detail::contiguous_data(a);
    if (is_taken_wide(t, a.type(), source)) {
      const Tensor wide = no_grad([&] { return take(a.to(Type::f32), indices, axis); });
      out.state()->data = detail::data_of(wide.to(Type::f16));
    } else {
      run_taking(t, source, out);
    }
  }
  detail::record(out, {&a, 1}, [t, from = a.shape()](const Tensor& g) {
    return std::vector{put_taken(t, g, from)};
  });
  return out;
}

}  // namespace

Tensor take(const Tensor& a, const Tensor& indices, std::int64_t axis, IndexCheck check) {
  return taken("take", a, indices, axis, check);
}

Tensor embedding(const Tensor& table, const Tensor& indices, IndexCheck check) {
  if (detail::state_of("embedding", table).shape.size() != 2) {
    throw Error(ErrorCode::Shape,
                "embedding: expected a table (n, d), got " + to_text(table.shape()));
  }
  return taken("embedding", table, indices, 0, check);
}

}  // namespace topograd::ops
