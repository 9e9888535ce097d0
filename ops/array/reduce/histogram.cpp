// Histograms: each workgroup counts its share, in shared memory if the bins fit.
#include "histogram.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "../blocks.hpp"
#include "../map_kernel.hpp"
#include "reduce_device.hpp"

#include <tbb/enumerable_thread_specific.h>

#include <bit>
#include <cmath>
#include <locale>
#include <sstream>

namespace topograd::ops {
namespace {

using codegen::Precision;
using codegen::text;

// Maximum number of counters per workgroup: 16 KiB, which every device has.
constexpr std::uint32_t kMostShared = 4096;

template <class T>
struct Edges {
  T low, high, scale;
  std::uint32_t count;

  explicit Edges(const Bins& bins)
      : low(static_cast<T>(bins.low)),
        high(static_cast<T>(bins.high)),
        scale(static_cast<T>(bins.count / (bins.high - bins.low))),
        count(bins.count) {}

  /// The bin of v; `count` if it is in none.
  std::uint32_t bin(T v) const {
    if (!(v >= low && v <= high)) return count;
    const T at = (v - low) * scale;
    return at < static_cast<T>(count) ? static_cast<std::uint32_t>(at) : count - 1;
  }
};

/// Bins are computed in P.
template <class T, class P>
void count_on_cpu(const Slice& x, const Bins& bins, const Slice& output) {
  const Edges<P> edges(bins);
  const T* const from = x.read<T>();
  tbb::enumerable_thread_specific<std::vector<std::uint32_t>> counts(
      [&] { return std::vector<std::uint32_t>(std::size_t{bins.count} + 1); });
  for_blocks(x.size, [&](std::size_t, std::size_t first, std::size_t n) {
    std::vector<std::uint32_t>& own = counts.local();
    for (std::size_t i = first; i < first + n; ++i) ++own[edges.bin(static_cast<P>(from[i]))];
  });
  std::uint32_t* const to = output.write<std::uint32_t>();
  std::fill_n(to, bins.count, 0u);
  for (const std::vector<std::uint32_t>& own : counts) {
    for (std::uint32_t k = 0; k < bins.count; ++k) to[k] += own[k];
  }
}

constexpr std::string_view kCount = R"(  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
{clear}  for (uint i = begin + gl_LocalInvocationID.x; i < end; i += {L}u) {
    {T} v = {load};
    if (v >= {low} && v <= {high}) {
      precise {T} at = (v - {low}) * {scale};
      atomicAdd({counter}, 1u);
    }
  }
{flush})";
constexpr std::string_view kClear =
    R"(  for (uint k = gl_LocalInvocationID.x; k < bins; k += {L}u) counters[k] = 0u;
  barrier();
)";
constexpr std::string_view kFlush = R"(  barrier();
  for (uint k = gl_LocalInvocationID.x; k < bins; k += {L}u) {
    if (counters[k] != 0u) atomicAdd(y(k), counters[k]);
  }
)";

ComputeKernel count_source(Type type, Precision precision, std::uint32_t local,
                           std::uint32_t shared) {
  const bool wide = precision == Precision::f64;
  KernelParts parts{.name = text("histogram_", name(type)),
                    .local_size = {local, 1, 1},
                    .arguments = {{"x", std::string(glsl_name(type)), Access::read},
                                  {"y", "uint", Access::read_write}},
                    .words = {"count", "per_group", "bins"}};
  const auto number = [&](const char* of) {
    parts.words.push_back(text(of, "_0"));
    if (!wide) return text("uintBitsToFloat(", of, "_0)");
    parts.words.push_back(text(of, "_1"));
    return text("packDouble2x32(uvec2(", of, "_0, ", of, "_1))");
  };
  const std::string low = number("low"), high = number("high"), scale = number("scale");
  const std::string l = std::to_string(local);
  const std::string clear = shared > 0 ? codegen::substitute(kClear, {{"L", l}}) : std::string();
  const std::string flush = shared > 0 ? codegen::substitute(kFlush, {{"L", l}}) : std::string();
  if (shared > 0) parts.functions = text("shared uint counters[", shared, "];\n");
  const std::string bin = "min(uint(at), bins - 1u)";
  parts.body = codegen::substitute(
      kCount, {{"clear", clear},
               {"flush", flush},
               {"L", l},
               {"T", std::string(codegen::scalar_type(precision))},
               {"load", load_source(type, precision, "x(i)")},
               {"low", low},
               {"high", high},
               {"scale", scale},
               {"counter", shared > 0 ? "counters[" + bin + "]" : "y(" + bin + ")"}});
  return make_kernel(parts);
}

template <class P>
void add_words(const Bins& bins, std::vector<std::uint32_t>& words) {
  const Edges<P> edges(bins);
  for (const P number : {edges.low, edges.high, edges.scale}) {
    if constexpr (sizeof(P) == 4) {
      words.push_back(std::bit_cast<std::uint32_t>(number));
    } else {
      const auto bits = std::bit_cast<std::uint64_t>(number);
      words.push_back(static_cast<std::uint32_t>(bits));
      words.push_back(static_cast<std::uint32_t>(bits >> 32));
    }
  }
}

void count_on_device(OpBackend& backend, const Slice& x, const Bins& bins, const Slice& output) {
  const Argument zeroed = output.writes(backend);
  backend.fill(zeroed.memory, zeroed.offset, zeroed.bytes, 0);
  if (x.size == 0) return;
  const Precision precision = precision_for({&x.type, 1});
  const Shares shares = share_out(backend, x.size, size_of(x.type), 8, 2);
  const std::uint32_t shared = bins.count <= kMostShared ? std::bit_ceil(bins.count) : 0;
  const ComputeKernel& kernel = kernel_for(key_of("histogram", x.type, shares.local, shared), [&] {
    return count_source(x.type, precision, shares.local, shared);
  });
  for (std::uint64_t begin = 0; begin < x.size; begin += shares.chunk) {
    const std::uint64_t items = std::min(shares.chunk, x.size - begin);
    const std::uint64_t groups = (items + shares.per_group - 1) / shares.per_group;
    std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(items),
                                        static_cast<std::uint32_t>(shares.per_group), bins.count};
    if (precision == Precision::f64) {
      add_words<double>(bins, words);
    } else {
      add_words<float>(bins, words);
    }
    const Argument arguments[] = {x.reads(backend, begin, items), output.updates(backend)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, groups * shares.local)});
  }
}

}  // namespace

ExecutionStats histogram_into(const Slice& x, const Bins& bins, const Slice& output,
                              const OpOptions& options) {
  if (bins.count == 0 || !std::isfinite(bins.high - bins.low) || !(bins.low < bins.high)) {
    std::ostringstream message;
    message.imbue(std::locale::classic());
    message << "histogram: expected at least one bin between finite limits, got " << bins.count
            << " from " << bins.low << " to " << bins.high;
    throw Error(ErrorCode::InvalidArgument, message.str());
  }
  expect_size("histogram", bins.count, output.size);
  expect_type("histogram", "results", Type::u32, output.type);
  const auto on_cpu = [&](auto element) {
    using T = decltype(element);
    count_on_cpu<T, std::conditional_t<std::is_same_v<T, float>, float, double>>(x, bins, output);
  };
  const OpCall call{
      .op = Operation::Histogram,
      .kernel = key_of("histogram", x.type, bins.count <= kMostShared),
      .size = x.size,
      // One difference, product, comparison and count per element.
      .work = {.operations = 4 * x.size,
               .bytes_read = x.bytes(),
               .bytes_written = output.bytes(),
               .pattern = runtime::hybrid::MemoryPattern::scatter},
      .inputs = {x.storage},
      .outputs = {output.storage},
      .on_cpu = [&] { with_type(x.type, on_cpu); },
      .on_device = [&](OpBackend& backend) { count_on_device(backend, x, bins, output); },
      .needs_float64 = x.type != Type::f32};
  return run(call, options);
}

}  // namespace topograd::ops
