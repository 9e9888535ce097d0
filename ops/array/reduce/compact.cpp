// Compaction: a scan of the flags gives the positions of the kept elements.
#include "../../backend/kernel_store.hpp"
#include "../blocks.hpp"
#include "../by_index.hpp"
#include "scan.hpp"

#include <algorithm>
#include <string>

namespace topograd::ops {
namespace {

/// `place` is the inclusive scan of the flags.
void compact_on_device(OpBackend& backend, const Slice& x, const Slice& flags, const Slice& place,
                       const Slice& output) {
  check_reached("compact", backend, output);
  const std::uint32_t local = index_workgroup(backend);
  const ComputeKernel& kernel = kernel_for(KernelFile::compact, x.type, {}, local);
  const std::uint64_t chunk = index_chunk(backend, size_of(x.type));
  for (std::uint64_t begin = 0; begin < x.size; begin += chunk) {
    const std::uint64_t items = std::min(chunk, x.size - begin);
    const Argument arguments[] = {
        x.reads(backend, begin, items), flags.reads(backend, begin, items),
        place.reads(backend, begin, items), output.writes(backend, 0, output.size, begin > 0)};
    const std::uint32_t words[] = {static_cast<std::uint32_t>(items)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, items)});
  }
}

}  // namespace

Slice compact_slice(const Slice& x, const Slice& flags, const OpOptions& options) {
  expect_size("compact", x.size, flags.size);
  expect_type("compact", "flags", Type::u32, flags.type);
  if (x.size == 0) return make_slice(x.type, 0, "compact");
  const Slice ones = make_slice(Type::u32, x.size), place = make_slice(Type::u32, x.size);
  const Expression one = Expression::of<1>("compact", [](const Value& v) {
    return select(v == topograd::literal(0), topograd::literal(0), topograd::literal(1));
  });
  const MapInput input{flags, {}};
  map_into(one, {&input, 1}, {&ones, 1}, {}, options);
  scan_into(Reduction::sum, ones, place, false, options);
  Slice last = place;
  last.first = x.size - 1;
  last.size = 1;
  const Slice number = make_slice(Type::u32, 1);
  const Slice zero_index = make_slice(Type::u32, 1);
  *zero_index.write<std::uint32_t>() = 0;
  gather_into(last, zero_index, number, IndexCheck::none, options);
  Slice output = make_slice(x.type, *number.read<std::uint32_t>(), "compact");
  if (output.size == 0) return output;
  const auto on_cpu = [&](auto element) {
    using T = decltype(element);
    const T* from = x.read<T>();
    const std::uint32_t* keep = flags.read<std::uint32_t>();
    const std::uint32_t* at = place.read<std::uint32_t>();
    T* to = output.write<T>();
    for_blocks(x.size, [&](std::size_t, std::size_t first, std::size_t n) {
      for (std::size_t i = first; i < first + n; ++i) {
        if (keep[i] != 0) to[at[i] - 1] = from[i];
      }
    });
  };
  const OpCall call{
      .op = Operation::Compact,
      .kernel = key_of("compact", x.type),
      .size = x.size,
      .work = {.operations = x.size,
               .bytes_read = x.bytes() + flags.bytes() + place.bytes(),
               .bytes_written = output.bytes(),
               .pattern = runtime::hybrid::MemoryPattern::scatter},
      .inputs = {x.storage, flags.storage, place.storage},
      .outputs = {output.storage},
      .on_cpu = [&] { with_type(x.type, on_cpu); },
      .on_device = [&](OpBackend& backend) { compact_on_device(backend, x, flags, place, output); },
      .needs_float64 = x.type == Type::f64};
  run(call, options);
  return output;
}

}  // namespace topograd::ops
