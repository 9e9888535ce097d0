// Gather, and scatter with the available atomics.
#include "gather.hpp"

#include "../../codegen/glsl/text.hpp"
#include "../backend/kernel_store.hpp"
#include "blocks.hpp"

#include <algorithm>
#include <string>

namespace topograd::ops {
namespace {

using codegen::text;

void check_indices(const char* call, const Slice& index, std::uint64_t size, IndexCheck check) {
  if (index.type != Type::u32) {
    throw Error(
        ErrorCode::InvalidArgument,
        std::string(call) + ": expected indices of type u32, got " + std::string(name(index.type)));
  }
  if (check == IndexCheck::none) return;
  const std::uint32_t* at = index.read<std::uint32_t>();
  for (std::uint64_t i = 0; i < index.size; ++i) {
    if (at[i] >= size) {
      throw Error(ErrorCode::InvalidArgument, std::string(call) + ": index " + std::to_string(i) +
                                                  " is " + std::to_string(at[i]) +
                                                  ", expected below " + std::to_string(size));
    }
  }
}

/// Elements per invocation. Their loads are issued together, so that they wait for memory once; no
/// branch may precede a load (an invalid index loads from a valid index instead).
std::uint32_t per_invocation(const OpBackend& backend, std::uint32_t most) {
  return backend.limits().occupied_by_few ? 1 : most;
}
constexpr std::uint32_t kGathered = 8, kScattered = 4;

/// Repeats `pattern` for each element n of an invocation. Each element has its own variables,
/// because an array would be in memory.
std::string each(std::uint32_t per, std::string_view pattern, const std::string& t,
                 std::uint32_t local) {
  std::string out;
  for (std::uint32_t n = 0; n < per; ++n)
    out += codegen::substitute(
        pattern, {{"n", std::to_string(n)}, {"at", text("first + ", n * local, "u")}, {"t", t}});
  return out;
}

// A complete tile, and single elements. A second load, or a bound in the address, would cost as
// much as the joint wait gains.
constexpr std::string_view kGatherIndex = "    uint place_{n} = at({at});\n";
constexpr std::string_view kGatherLoad =
    "    {t} value_{n} = place_{n} < size ? x(place_{n}) : {t}(0);\n";
constexpr std::string_view kGatherStore = "    y({at}) = value_{n};\n";
constexpr std::string_view kGatherOne = R"(    uint k = at(i);
    y(i) = k < size ? x(k) : {t}(0);
)";
constexpr std::string_view kScatterLoad = "    {t} value_{n} = x({at});\n";
constexpr std::string_view kScatterStore = R"(    if (place_{n} < size) {
      uint k = place_{n};
      {t} v = value_{n};
{statement}    }
)";
constexpr std::string_view kScatterOne = R"(    uint k = at(i);
    if (k >= size) continue;
    {t} v = x(i);
{statement})";

std::string tile_source(std::uint32_t local, std::uint32_t per, const std::string& whole,
                        const std::string& one) {
  const std::uint32_t tile = local * per;
  return text("  uint start = linear_group() * ", tile,
              "u;\n  uint first = start + gl_LocalInvocationID.x;\n  if (start + ", tile,
              "u <= count) {\n", whole,
              "    return;\n  }\n  for (uint i = first; i < count; i += ", local, "u) {\n", one,
              "  }\n");
}

ComputeKernel gather_source(Type type, std::uint32_t local, std::uint32_t per) {
  const std::string t(glsl_name(type));
  return make_kernel(
      {.name = text("gather_", name(type)),
       .local_size = {local, 1, 1},
       .arguments = {{"x", t, Access::read}, {"at", "uint", Access::read}, {"y", t, Access::write}},
       .words = {"count", "size"},
       .body = tile_source(local, per,
                           each(per, kGatherIndex, t, local) + each(per, kGatherLoad, t, local) +
                               each(per, kGatherStore, t, local),
                           codegen::substitute(kGatherOne, {{"t", t}}))});
}

void gather_on_device(OpBackend& backend, const Slice& x, const Slice& index, const Slice& output) {
  check_reached("gather", backend, x);
  const std::uint32_t local = index_workgroup(backend);
  const std::uint32_t per = per_invocation(backend, kGathered);
  const ComputeKernel& kernel = kernel_for(key_of("gather", x.type, local, per),
                                           [&] { return gather_source(x.type, local, per); });
  const std::uint64_t chunk = index_chunk(backend, size_of(x.type));
  for (std::uint64_t begin = 0; begin < index.size; begin += chunk) {
    const std::uint64_t items = std::min(chunk, index.size - begin);
    const Argument arguments[] = {x.reads(backend), index.reads(backend, begin, items),
                                  output.writes(backend, begin, items, begin > 0)};
    const std::uint32_t words[] = {static_cast<std::uint32_t>(items),
                                   static_cast<std::uint32_t>(x.size)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, (items + per - 1) / per)});
  }
}

enum class Accumulation : std::uint8_t { store, integer, atomic, swap32, swap64 };

/// The best available way to add; empty if there is none.
std::optional<Accumulation> accumulation_for(const LaunchLimits& limits, Type type,
                                             Combine combine) {
  if (combine == Combine::store) return Accumulation::store;
  if (!is_floating(type)) return Accumulation::integer;
  if (type == Type::f32) return limits.atomic_float32 ? Accumulation::atomic : Accumulation::swap32;
  if (limits.atomic_float64) return Accumulation::atomic;
  if (limits.int64_atomics && limits.int64) return Accumulation::swap64;
  return std::nullopt;
}

/// Stores `v` in element k of y, or adds it. The loop compares bits, so that NaN ends it; the value
/// found is the next expected value.
std::string scatter_statement(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::store: return "    y(k) = v;\n";
    case Accumulation::integer:
    case Accumulation::atomic: return "    atomicAdd(y(k), v);\n";
    case Accumulation::swap32:
      return "  uint expected = y(k);\n  for (;;) {\n"
             "    precise float sum = uintBitsToFloat(expected) + v;\n"
             "    uint found = atomicCompSwap(y(k), expected, floatBitsToUint(sum));\n"
             "    if (found == expected) break;\n    expected = found;\n  }\n";
    case Accumulation::swap64:
      return "  uint64_t expected = y(k);\n  for (;;) {\n"
             "    precise double sum = uint64BitsToDouble(expected) + v;\n"
             "    uint64_t found = atomicCompSwap(y(k), expected, doubleBitsToUint64(sum));\n"
             "    if (found == expected) break;\n    expected = found;\n  }\n";
  }
  return {};
}

ComputeKernel scatter_source(Type type, Accumulation accumulation, std::uint32_t local,
                             std::uint32_t per) {
  const std::string t(glsl_name(type));
  std::string target = t;
  KernelParts parts{
      .name = text("scatter_", name(type)),
      .local_size = {local, 1, 1},
  };
  if (accumulation == Accumulation::atomic)
    parts.extensions.emplace_back("GL_EXT_shader_atomic_float");
  if (accumulation == Accumulation::swap32) target = "uint";
  if (accumulation == Accumulation::swap64) {
    target = "uint64_t";
    parts.extensions.emplace_back("GL_EXT_shader_explicit_arithmetic_types_int64");
    parts.extensions.emplace_back("GL_EXT_shader_atomic_int64");
  }
  parts.arguments = {
      {"x", t, Access::read}, {"at", "uint", Access::read}, {"y", target, Access::read_write}};
  parts.words = {"count", "size"};
  const std::string whole = each(per, kGatherIndex, t, local) + each(per, kScatterLoad, t, local) +
                            each(per, kScatterStore, t, local);
  const std::string one = codegen::substitute(kScatterOne, {{"t", t}});
  parts.body = codegen::substitute(tile_source(local, per, whole, one),
                                   {{"statement", scatter_statement(accumulation)}});
  return make_kernel(parts);
}

void scatter_on_device(OpBackend& backend, Combine combine, const Slice& x, const Slice& index,
                       const Slice& target) {
  check_reached("scatter", backend, target);
  const std::optional<Accumulation> accumulation =
      accumulation_for(backend.limits(), x.type, combine);
  if (!accumulation) {
    throw Error(ErrorCode::Unsupported,
                "scatter: adding f64 expects float64 or int64 atomics, which \"" +
                    backend.facts().name + "\" lacks");
  }
  const std::uint32_t local = index_workgroup(backend);
  const std::uint32_t per = per_invocation(backend, kScattered);
  const ComputeKernel& kernel =
      kernel_for(key_of("scatter", x.type, *accumulation, local, per),
                 [&] { return scatter_source(x.type, *accumulation, local, per); });
  const std::uint64_t chunk = index_chunk(backend, size_of(x.type));
  for (std::uint64_t begin = 0; begin < index.size; begin += chunk) {
    const std::uint64_t items = std::min(chunk, index.size - begin);
    const Argument arguments[] = {x.reads(backend, begin, items),
                                  index.reads(backend, begin, items), target.updates(backend)};
    const std::uint32_t words[] = {static_cast<std::uint32_t>(items),
                                   static_cast<std::uint32_t>(target.size)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, (items + per - 1) / per)});
  }
}

template <class T>
void scatter_on_cpu(Combine combine, const Slice& x, const Slice& index, const Slice& target) {
  using W = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>;
  const T* from = x.read<T>();
  const std::uint32_t* at = index.read<std::uint32_t>();
  T* to = reinterpret_cast<T*>(target.storage->write_host(true) + target.byte_offset());
  for (std::uint64_t i = 0; i < index.size; ++i) {
    if (at[i] >= target.size) continue;
    T& element = to[at[i]];
    element = combine == Combine::store
                  ? from[i]
                  : static_cast<T>(static_cast<W>(element) + static_cast<W>(from[i]));
  }
}

}  // namespace

void check_reached(const char* call, const OpBackend& backend, const Slice& slice) {
  if (slice.bytes() <= backend.limits().binding_bytes) return;
  throw Error(ErrorCode::OutOfDeviceMemory,
              std::string(call) + ": " + std::to_string(slice.bytes()) +
                  " bytes that indices reach are over the " +
                  std::to_string(backend.limits().binding_bytes) + " that \"" +
                  backend.facts().name + "\" binds at once");
}

std::uint32_t index_workgroup(const OpBackend& backend) {
  return std::min(256u, backend.limits().local_size);
}

std::uint64_t index_chunk(const OpBackend& backend, std::size_t widest) {
  return std::min<std::uint64_t>(backend.limits().binding_bytes / widest, 1u << 30) / 1024 * 1024;
}

void gather_on(OpBackend& backend, const Slice& x, const Slice& index, const Slice& output) {
  gather_on_device(backend, x, index, output);
}

ExecutionStats gather_into(const Slice& x, const Slice& index, const Slice& output,
                           IndexCheck check, const OpOptions& options) {
  expect_size("gather", index.size, output.size);
  expect_type("gather", "indices", Type::u32, index.type);
  expect_type("gather", "results", x.type, output.type);
  expect_apart("gather", "results", output, x);
  expect_apart("gather", "results", output, index);
  check_indices("gather", index, x.size, check);
  const auto on_cpu = [&](auto element) {
    using T = decltype(element);
    const T* from = x.read<T>();
    const std::uint32_t* at = index.read<std::uint32_t>();
    T* to = output.write<T>();
    for_blocks(index.size, [&](std::size_t, std::size_t first, std::size_t n) {
      for (std::size_t i = first; i < first + n; ++i) to[i] = at[i] < x.size ? from[at[i]] : T{0};
    });
  };
  const OpCall call{
      .op = Operation::Gather,
      .kernel = key_of("gather", x.type),
      .size = index.size,
      .work = {.operations = 0,
               .bytes_read = index.bytes() + std::min(x.bytes(), output.bytes()),
               .bytes_written = output.bytes(),
               .reads = static_cast<double>(index.bytes() + output.bytes()),
               .pattern = runtime::hybrid::MemoryPattern::gather},
      .inputs = {x.storage, index.storage},
      .outputs = {output.storage},
      .on_cpu = [&] { with_type(x.type, on_cpu); },
      .on_device = [&](OpBackend& backend) { gather_on_device(backend, x, index, output); },
      .needs_float64 = x.type == Type::f64};
  return run(call, options);
}

ExecutionStats scatter_into(Combine combine, const Slice& x, const Slice& index,
                            const Slice& target, IndexCheck check, const OpOptions& options) {
  expect_size("scatter", index.size, x.size);
  expect_type("scatter", "indices", Type::u32, index.type);
  expect_type("scatter", "a target", x.type, target.type);
  expect_apart("scatter", "a target", target, x);
  expect_apart("scatter", "a target", target, index);
  check_indices("scatter", index, target.size, check);
  // The target is an input, too, because elements without an index keep their values.
  const OpCall call{
      .op = Operation::Scatter,
      .kernel = key_of("scatter", x.type, combine),
      .size = index.size,
      .work = {.operations = combine == Combine::add ? index.size : 0,
               .bytes_read = index.bytes() + x.bytes() +
                             (combine == Combine::add ? std::min(x.bytes(), target.bytes()) : 0),
               .bytes_written = std::min(x.bytes(), target.bytes()),
               .pattern = runtime::hybrid::MemoryPattern::scatter},
      .inputs = {x.storage, index.storage, target.storage},
      .outputs = {target.storage},
      .on_cpu =
          [&] {
            with_type(x.type, [&](auto element) {
              scatter_on_cpu<decltype(element)>(combine, x, index, target);
            });
          },
      .on_device =
          [&](OpBackend& backend) { scatter_on_device(backend, combine, x, index, target); },
      .needs_float64 = x.type == Type::f64};
  return run(call, options);
}

}  // namespace topograd::ops
