// Scans: shares are reduced first, then each is scanned, beginning with the sum of the shares
// before. No workgroup waits for another, because not every device guarantees progress;
// scan_ahead.hpp is for devices that do.
#include "scan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "../blocks.hpp"
#include "reduce_cpu.hpp"
#include "reduce_device.hpp"
#include "scan_ahead.hpp"

namespace topograd::ops {
namespace {

using codegen::text;

template <class T>
T combine(Reduction reduction, T a, T b) {
  using W = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>;
  if (reduction == Reduction::sum) return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  if (reduction == Reduction::product) return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  if (a != a) return a;
  if (b != b) return b;
  return reduction == Reduction::min ? (b < a ? b : a) : (a < b ? b : a);
}

template <class T>
T identity(Reduction reduction) {
  using L = std::numeric_limits<T>;
  if (reduction == Reduction::sum) return T{0};
  if (reduction == Reduction::product) return T{1};
  const bool least = reduction == Reduction::min;
  if constexpr (std::is_floating_point_v<T>) return least ? L::infinity() : -L::infinity();
  return least ? L::max() : L::min();
}

template <class T>
void scan_on_cpu(Reduction reduction, const Slice& x, const Slice& output, bool exclusive) {
  const T* from = x.read<T>();
  T* to = output.write<T>();
  const std::size_t count = x.size;
  std::vector<T> carries(block_count(count) + 1, identity<T>(reduction));
  for_blocks(count, [&](std::size_t block, std::size_t first, std::size_t n) {
    T sum = identity<T>(reduction);
    for (std::size_t i = first; i < first + n; ++i) sum = combine(reduction, sum, from[i]);
    carries[block + 1] = sum;
  });
  for (std::size_t b = 1; b < carries.size(); ++b)
    carries[b] = combine(reduction, carries[b - 1], carries[b]);
  for_blocks(count, [&](std::size_t block, std::size_t first, std::size_t n) {
    T before = carries[block];
    for (std::size_t i = first; i < first + n; ++i) {
      const T next = combine(reduction, before, from[i]);
      to[i] = exclusive ? before : next;
      before = next;
    }
  });
}

/// {L} invocations with {P} neighbouring elements each.
constexpr std::string_view kScanBody = R"(  uint lid = gl_LocalInvocationID.x;
  uint group = group_base + linear_group();
  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
  State s = identity();
  uint each = (group + {L}u - 1u) / {L}u;
  for (uint k = lid * each; k < min(group, (lid + 1u) * each); ++k) s = combine(s, {partial});
{tree}  State carry = shared_states[0];
  barrier();
  for (uint tile = begin; tile < end; tile += {T}u) {
    State mine[{P}];
    if (tile + {T}u <= end) {
      for (uint k = 0u; k < {P}u; ++k) mine[k] = item(tile + k * {L}u + lid);
    } else {
      for (uint k = 0u; k < {P}u; ++k) {
        mine[k] = identity();
        if (tile + k * {L}u + lid < end) mine[k] = item(tile + k * {L}u + lid);
      }
    }
    for (uint k = 0u; k < {P}u; ++k) shared_tile[padded(k * {L}u + lid)] = mine[k];
    barrier();
    State sum = identity();
    for (uint k = 0u; k < {P}u; ++k) {
      mine[k] = shared_tile[padded(lid * {P}u + k)];
      sum = combine(sum, mine[k]);
    }
    shared_states[lid] = sum;
    barrier();
    for (uint width = 1u; width < {L}u; width *= 2u) {
      State both = shared_states[lid];
      if (lid >= width) both = combine(shared_states[lid - width], both);
      barrier();
      shared_states[lid] = both;
      barrier();
    }
    State before = carry;
    if (lid > 0u) before = combine(carry, shared_states[lid - 1u]);
    for (uint k = 0u; k < {P}u; ++k) {
      State next = combine(before, mine[k]);
      if (exclusive != 0u) {
        shared_tile[padded(lid * {P}u + k)] = before;
      } else {
        shared_tile[padded(lid * {P}u + k)] = next;
      }
      before = next;
    }
    carry = combine(carry, shared_states[{L}u - 1u]);
    barrier();
    for (uint k = 0u; k < {P}u; ++k) {
      uint i = tile + k * {L}u + lid;
      if (i < end) y(i) = {result};
    }
    barrier();
  }
)";

ComputeKernel scan_source(const FoldForm& form, Type type, std::uint32_t local, std::uint32_t per) {
  const Monoid& monoid = form.monoid;
  const std::string t(glsl_name(type)), state(glsl_name(monoid.members[0]));
  KernelParts parts{
      .name = "scan_shares",
      .local_size = {local, 1, 1},
      .arguments = {{"x0", t, Access::read}, {"p0", state, Access::read}, {"y", t, Access::write}},
      .words = {"count", "per_group", "group_base", "exclusive"}};
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  const std::uint32_t tile = local * per;
  parts.functions =
      monoid.functions + form.functions +
      text("shared State shared_states[", local, "];\nshared State shared_tile[", tile + tile / 32,
           "];\n\n// Neighbours of one invocation lie in different banks.\n",
           "uint padded(uint k) { return k + (k >> 5); }\n", form.item_function());
  parts.body = codegen::substitute(
      kScanBody, {{"L", std::to_string(local)},
                  {"P", std::to_string(per)},
                  {"T", std::to_string(tile)},
                  {"result", form.result_of(text("shared_tile[padded(k * ", local, "u + lid)]"))},
                  {"partial", load_state(monoid, "k")},
                  {"tree", tree_source(local)}});
  return make_kernel(parts);
}

void scan_on_device(OpBackend& backend, const FoldForm& form, const Slice& x, const Slice& output,
                    bool exclusive) {
  if (x.size == 0) return;
  if (scans_ahead(backend, form, x, output)) return scan_ahead(backend, form, x, output, exclusive);
  const Monoid& monoid = form.monoid;
  const std::uint32_t per = backend.limits().occupied_by_few ? 4 : 8;
  const Shares shares = share_out(backend, x.size, size_of(x.type), per, 8);
  const std::vector<Slice> partial = reduce_shares(backend, monoid, form.item, {&x, 1}, shares);
  const ComputeKernel& kernel =
      kernel_for(key_of("scan", monoid.key.high, monoid.key.low, x.type, shares.local, per),
                 [&] { return scan_source(form, x.type, shares.local, per); });
  for (std::uint64_t begin = 0; begin < x.size; begin += shares.chunk) {
    const std::uint64_t items = std::min(shares.chunk, x.size - begin);
    const std::uint64_t groups = (items + shares.per_group - 1) / shares.per_group;
    const Argument arguments[] = {x.reads(backend, begin, items), partial[0].reads(backend),
                                  output.writes(backend, begin, items, begin > 0)};
    std::vector<std::uint32_t> words = {
        static_cast<std::uint32_t>(items), static_cast<std::uint32_t>(shares.per_group),
        static_cast<std::uint32_t>(begin / shares.per_group), exclusive ? 1u : 0u};
    words.insert(words.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, groups * shares.local)});
  }
}

template <class T>
void fold_scan_on_cpu(const Expression& expression, double identity, const Slice& x,
                      const Slice& output, bool exclusive) {
  TileFold<T> fold(expression, identity);
  const HostInput from{x.type, x.storage->read_host() + x.byte_offset(), Step::dense, {}};
  const auto block_of = [&](std::size_t first, std::size_t n) {
    std::vector<T> block(n);
    load_tile(from, {}, first, n, block.data());
    return block;
  };
  std::vector<T> carries(block_count(x.size));
  for_blocks(x.size, [&](std::size_t b, std::size_t first, std::size_t n) {
    std::vector<T> block = block_of(first, n);
    carries[b] = fold.reduce(block);
  });
  fold.prefixes(carries, fold.identity());
  std::byte* const to = output.storage->write_host(!output.whole()) + output.byte_offset();
  for_blocks(x.size, [&](std::size_t b, std::size_t first, std::size_t n) {
    const std::vector<T> block = block_of(first, n);
    std::vector<T> sums = block;
    fold.prefixes(sums, carries[b]);
    if (!exclusive) fold.add(sums, block);
    with_type(output.type, [&](auto element) {
      using E = decltype(element);
      for (std::size_t i = 0; i < n; ++i)
        reinterpret_cast<E*>(to)[first + i] = to_element<E>(sums[i]);
    });
  });
}

/// The common parts of scans on the CPU and on devices.
struct ScanCall {
  const Slice& x;
  const Slice& output;
  bool exclusive;
  FoldForm form;

  /// Two trees, up and down, with `operations` operations per element.
  static Work work(const Slice& x, const Slice& output, double operations) {
    const auto count = static_cast<double>(x.size);
    return {.operations = operations * count,
            .bytes_read = x.bytes(),
            .bytes_written = output.bytes(),
            .steps = 2 * runtime::hybrid::tree_steps(count)};
  }

  ExecutionStats run(OpCall call, const OpOptions& options) const {
    call.op = Operation::Scan;
    call.size = x.size;
    call.inputs = {x.storage};
    call.outputs = {output.storage};
    call.on_device = [this](OpBackend& backend) {
      scan_on_device(backend, form, x, output, exclusive);
    };
    return ops::run(call, options);
  }
};

}  // namespace

void scan_on(OpBackend& backend, const Slice& x, const Slice& output) {
  scan_on_device(backend, form_of(Reduction::sum, x.type), x, output, true);
}

ExecutionStats scan_into(Reduction reduction, const Slice& x, const Slice& output, bool exclusive,
                         const OpOptions& options) {
  expect_size("scan", x.size, output.size);
  expect_type("scan", "results", x.type, output.type);
  if (reduction != Reduction::sum && reduction != Reduction::product &&
      reduction != Reduction::min && reduction != Reduction::max) {
    throw Error(ErrorCode::InvalidArgument,
                "scan: expected sum, product, min or max, got " + std::string(name(reduction)));
  }
  const auto on_cpu = [&] {
    with_type(x.type, [&](auto element) {
      scan_on_cpu<decltype(element)>(reduction, x, output, exclusive);
    });
  };
  return ScanCall{x, output, exclusive, form_of(reduction, x.type)}.run(
      {.kernel = key_of("scan", reduction, x.type),
       .work = ScanCall::work(x, output, 1),
       .on_cpu = on_cpu,
       .needs_float64 = x.type == Type::f64},
      options);
}

ExecutionStats fold_scan_into(const Expression& fold, double identity, const Slice& x,
                              const Slice& output, bool exclusive, const OpOptions& options) {
  expect_size("scan", x.size, output.size);
  expect_type("scan", "results", x.type, output.type);
  const bool wide = x.type != Type::f32;
  const auto on_cpu = [&] {
    if (wide) {
      fold_scan_on_cpu<double>(fold, identity, x, output, exclusive);
    } else {
      fold_scan_on_cpu<float>(fold, identity, x, output, exclusive);
    }
  };
  return ScanCall{x, output, exclusive, form_of(fold, identity, x.type, most_words(3) - 4)}.run(
      {.kernel = key_of("fold_scan", fold.hash().high, fold.hash().low, x.type),
       .work = ScanCall::work(x, output, fold.operations()),
       .on_cpu = on_cpu,
       .needs_float64 = wide},
      options);
}

namespace {

/// `positions` is the inclusive scan of the flags.
void compact_on_device(OpBackend& backend, const Slice& x, const Slice& flags,
                       const Slice& positions, const Slice& output) {
  check_reached("compact", backend, output);
  const std::uint32_t local = index_workgroup(backend);
  const ComputeKernel& kernel = kernel_for(KernelFile::compact, x.type, {}, local);
  const std::uint64_t chunk = index_chunk(backend, size_of(x.type));
  for (std::uint64_t begin = 0; begin < x.size; begin += chunk) {
    const std::uint64_t items = std::min(chunk, x.size - begin);
    const Argument arguments[] = {
        x.reads(backend, begin, items), flags.reads(backend, begin, items),
        positions.reads(backend, begin, items), output.writes(backend, 0, output.size, begin > 0)};
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
  const Slice ones = make_slice(Type::u32, x.size), positions = make_slice(Type::u32, x.size);
  const Expression one = Expression::of<1>("compact", [](const Value& v) {
    return select(v == topograd::literal(0), topograd::literal(0), topograd::literal(1));
  });
  const MapInput input{flags, {}};
  map_into(one, {&input, 1}, {&ones, 1}, {}, options);
  scan_into(Reduction::sum, ones, positions, false, options);
  Slice end = positions;
  end.first = x.size - 1;
  end.size = 1;
  const Slice number = make_slice(Type::u32, 1);
  const Slice zero_index = make_slice(Type::u32, 1);
  *zero_index.write<std::uint32_t>() = 0;
  gather_into(end, zero_index, number, IndexCheck::none, options);
  Slice output = make_slice(x.type, *number.read<std::uint32_t>(), "compact");
  if (output.size == 0) return output;
  const auto on_cpu = [&](auto element) {
    using T = decltype(element);
    const T* from = x.read<T>();
    const std::uint32_t* keep = flags.read<std::uint32_t>();
    const std::uint32_t* at = positions.read<std::uint32_t>();
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
               .bytes_read = x.bytes() + flags.bytes() + positions.bytes(),
               .bytes_written = output.bytes(),
               .pattern = runtime::hybrid::MemoryPattern::scatter},
      .inputs = {x.storage, flags.storage, positions.storage},
      .outputs = {output.storage},
      .on_cpu = [&] { with_type(x.type, on_cpu); },
      .on_device =
          [&](OpBackend& backend) { compact_on_device(backend, x, flags, positions, output); },
      .needs_float64 = x.type == Type::f64};
  run(call, options);
  return output;
}

}  // namespace topograd::ops
