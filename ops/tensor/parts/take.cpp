// Access to entries of an axis by index, and its derivatives.
#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "../autograd.hpp"
#include "../operations.hpp"
#include "../state.hpp"
#include "units.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {
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
      const auto place = static_cast<double>(indices[row % t.taken]);
      const bool there = place >= 0 && place < static_cast<double>(t.entries);
      f(row * t.inner,
        there ? std::optional((row / t.taken * t.entries + static_cast<std::uint64_t>(place)) *
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
  for_rows(t, [&](std::uint64_t row, std::optional<std::uint64_t> place) {
    if (place) {
      std::memcpy(to + row * size, from + *place * size, bytes);
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
  const auto word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const std::uint64_t items = t.count() / per;
  const std::uint32_t words[] = {word(items), word(t.inner / per), word(t.taken), word(t.entries)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, items)});
}

void take_on_device(OpBackend& backend, const Taking& t, const detail::View& source,
                    const detail::View& target, Type type) {
  const std::uint32_t unit =
      detail::unit_bytes(type, {t.inner, static_cast<std::uint64_t>(source.offset)});
  const ComputeKernel& kernel =
      kernel_for(KernelFile::take, t.indices_type, {{"U", detail::unit_type(unit)}});
  Argument arguments[] = {
      detail::argument(backend, source, t.parts * t.entries * t.inner, type, Access::read),
      index_argument(backend, t),
      detail::argument(backend, target, t.count(), type, Access::write)};
  arguments[0].element = arguments[2].element = unit;
  launch_taking(backend, t, kernel, arguments, unit / size_of(type));
}

void places_on_device(OpBackend& backend, const Taking& t, const Slice& places) {
  const ComputeKernel& kernel = kernel_for(KernelFile::taken_places, t.indices_type);
  const Argument arguments[] = {index_argument(backend, t), places.writes(backend)};
  launch_taking(backend, t, kernel, arguments, 1);
}

/// The source of each number of the result; ~0 for none.
Slice places_of(const Taking& t, const std::optional<Device>& device) {
  Slice places = make_slice(Type::u32, t.count(), "places");
  const auto on_cpu = [&] {
    std::uint32_t* to = places.write<std::uint32_t>();
    for_rows(t, [&](std::uint64_t row, std::optional<std::uint64_t> place) {
      for (std::uint64_t i = 0; i < t.inner; ++i)
        to[row + i] = place ? static_cast<std::uint32_t>(*place + i) : ~0u;
    });
  };
  detail::run_op({.op = Operation::Map,
                  .kernel = key_of("taken_places"),
                  .size = t.count(),
                  .work = {.operations = t.count(),
                           .bytes_read = t.taken * size_of(t.indices_type),
                           .bytes_written = places.bytes(),
                           .reads = static_cast<double>(t.count() * size_of(t.indices_type))},
                  .inputs = {t.indices.storage},
                  .outputs = {places.storage},
                  .on_cpu = on_cpu,
                  .on_device = [&](OpBackend& backend) { places_on_device(backend, t, places); },
                  .needs_float64 = t.indices_type == Type::f64},
                 device);
  return places;
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
               places_of(t, device),
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
  return detail::unit_bytes(type, {t.inner, static_cast<std::uint64_t>(source.offset)}) < 4;
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
  detail::check_places(name, indices.type(), entries);
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
