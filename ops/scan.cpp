// Scans: shares are reduced first, then each is scanned from the sum of those before it. No
// workgroup waits for another, which not every device would survive.
#include <topograd/ops/scan.hpp>

#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ops/blocks.hpp>
#include <topograd/ops/kernel_store.hpp>
#include <topograd/ops/reduce_device.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

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

/// {L} invocations, {P} neighbouring elements for each.
constexpr std::string_view kScanBody = R"(  uint lid = gl_LocalInvocationID.x;
  uint group = group_base + linear_group();
  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
  State s = identity();
  for (uint k = lid; k < group; k += {L}u) s = combine(s, {partial});
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
      if (i < end) y(i) = shared_tile[padded(k * {L}u + lid)].m0;
    }
    barrier();
  }
)";

KernelText scan_text(const Monoid& monoid, Type type, std::uint32_t local, std::uint32_t per) {
  const std::string t(glsl_name(type));
  KernelParts parts{
      .name = "scan_shares",
      .local_size = {local, 1, 1},
      .arguments = {{"x0", t, Access::read}, {"p0", t, Access::read}, {"y", t, Access::write}},
      .words = {"count", "per_group", "group_base", "exclusive"}};
  const std::uint32_t tile = local * per;
  parts.functions =
      monoid.functions + text("shared State shared_states[", local, "];\nshared State shared_tile[",
                              tile + tile / 32,
                              "];\n\n// Neighbours of one invocation lie in different banks.\n",
                              "uint padded(uint k) { return k + (k >> 5); }\n",
                              "State item(uint i) { return State(x0(i)); }\n");
  parts.body = codegen::substitute(kScanBody, {{"L", std::to_string(local)},
                                               {"P", std::to_string(per)},
                                               {"T", std::to_string(tile)},
                                               {"partial", load_state(monoid, "k")},
                                               {"tree", tree_text(local)}});
  return make_kernel(parts);
}

void scan_on_device(Backend& backend, Reduction reduction, const Slice& x, const Slice& output,
                    bool exclusive) {
  if (x.size == 0) return;
  const Monoid monoid = monoid_of(reduction, x.type);
  const std::uint32_t per = backend.limits().occupied_by_few ? 4 : 8;
  const Shares shares = share_out(backend, x.size, size_of(x.type), per, 8);
  const ReductionItem item{.key = key_of("operand", 0),
                           .functions = {},
                           .statements = text("  ", glsl_name(x.type), " v = x0(i);\n")};
  const std::vector<Slice> partial = reduce_shares(backend, monoid, item, {&x, 1}, shares);
  const KernelText& kernel =
      kernel_for(key_of("scan", monoid.key.high, monoid.key.low, shares.local, per),
                 [&] { return scan_text(monoid, x.type, shares.local, per); });
  for (std::uint64_t begin = 0; begin < x.size; begin += shares.chunk) {
    const std::uint64_t items = std::min(shares.chunk, x.size - begin);
    const std::uint64_t groups = (items + shares.per_group - 1) / shares.per_group;
    const Argument arguments[] = {x.reads(backend, begin, items), partial[0].reads(backend),
                                  output.writes(backend, begin, items, begin > 0)};
    const std::uint32_t words[] = {
        static_cast<std::uint32_t>(items), static_cast<std::uint32_t>(shares.per_group),
        static_cast<std::uint32_t>(begin / shares.per_group), exclusive ? 1u : 0u};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, groups * shares.local)});
  }
}

}  // namespace

void scan_on(Backend& backend, const Slice& x, const Slice& output) {
  scan_on_device(backend, Reduction::sum, x, output, true);
}

ExecutionStats scan_into(Reduction reduction, const Slice& x, const Slice& output, bool exclusive,
                         const OpOptions& options) {
  expect_size("scan", x.size, output.size);
  if (reduction != Reduction::sum && reduction != Reduction::product &&
      reduction != Reduction::min && reduction != Reduction::max) {
    throw Error(ErrorCode::InvalidArgument,
                "scan: expected sum, product, min or max, got " + std::string(name(reduction)));
  }
  const std::shared_ptr<Storage> in[] = {x.storage}, out[] = {output.storage};
  const OpCall call{
      .op = Op::Scan,
      .kernel = key_of("scan", static_cast<int>(reduction), static_cast<int>(x.type)),
      .size = x.size,
      .features = {.bytes = 2.0 * static_cast<double>(size_of(x.type))},
      .inputs = in,
      .outputs = out,
      .on_cpu =
          [&] {
            with_type(x.type, [&](auto element) {
              scan_on_cpu<decltype(element)>(reduction, x, output, exclusive);
            });
          },
      .on_device =
          [&](Backend& backend) { scan_on_device(backend, reduction, x, output, exclusive); },
      .needs_float64 = x.type == Type::f64};
  return run(call, options);
}

}  // namespace topograd::ops
