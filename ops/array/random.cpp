// Random arrays: counters, distributions, and the source of their kernels.
#include "random.hpp"

#include "../backend/compute_kernel.hpp"
#include "../backend/kernel_store.hpp"
#include "blocks.hpp"
#include "map_kernel.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::ops {
namespace {

enum class RandomKind : std::uint8_t { words, uniform, normal };

constexpr std::string_view kPhilox = R"(uvec4 philox(uint c0, uint c1, uint c2, uint k0, uint k1) {
  uint c3 = 0u;
  for (uint round = 0u; round < 10u; ++round) {
    uint a_high, a_low, b_high, b_low;
    umulExtended(0xD2511F53u, c0, a_high, a_low);
    umulExtended(0xCD9E8D57u, c2, b_high, b_low);
    c0 = b_high ^ c1 ^ k0;
    c2 = a_high ^ c3 ^ k1;
    c1 = b_low;
    c3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return uvec4(c0, c1, c2, c3);
}
)";

// Range reductions use integers and are exact. The polynomials are from Cephes (Moshier, Methods
// and Programs for Mathematical Functions, 1989): logf, sinf and cosf.
constexpr std::string_view kNormal = R"(
// sqrt(-2 log((w + 1) / 2^32)): near 1 by how much is missing, else by mantissa and exponent.
float radius(uint w) {
  bool near = w >= 0xB504F333u;
  uint bits = floatBitsToUint(float(w + 1u)) + (0x3f800000u - 0x3f3504f3u);
  float k = near ? 0.0 : float(int(bits >> 23) - 159);
  float m = uintBitsToFloat((bits & 0x007fffffu) + 0x3f3504f3u);
  float f = near ? float(~w) * -2.3283064365386963e-10 : m - 1.0;
  float p = fma(7.0376836292e-2, f, -1.1514610310e-1);
  p = fma(p, f, 1.1676998740e-1);
  p = fma(p, f, -1.2420140846e-1);
  p = fma(p, f, 1.4249322787e-1);
  p = fma(p, f, -1.6668057665e-1);
  p = fma(p, f, 2.0000714765e-1);
  p = fma(p, f, -2.4999993993e-1);
  p = fma(p, f, 3.3333331174e-1);
  float z = f * f;
  float low = fma(k, -2.12194440e-4, p * f * z);
  float y = -2.0 * fma(k, 0.693359375, f + fma(-0.5, z, low));
  return y > 0.0 ? y * inversesqrt(y) : 0.0;
}

// cos(2 pi w / 2^32): a quarter, and what is left of it, between -pi/4 and pi/4.
float turned(uint w) {
  uint quarter = (w + 0x20000000u) >> 30;
  float x = float(int(w - (quarter << 30))) * 1.4629180792671596e-9;
  float z = x * x;
  float s = fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1);
  s = fma(s * z, x, x);
  float c = fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2);
  c = fma(c * z, z, fma(-0.5, z, 1.0));
  float y = (quarter & 1u) == 0u ? c : s;
  return quarter == 1u || quarter == 2u ? -y : y;
}
)";

std::string_view numbers(RandomKind kind) {
  switch (kind) {
    case RandomKind::words: return "uvec4 v = first;\n";
    case RandomKind::uniform: return "vec4 v = vec4(first >> 8u) * 5.9604644775390625e-8;\n";
    case RandomKind::normal:
      return R"(uvec4 second = philox(low, high, stream + 1u, seed_low, seed_high);
  vec4 v = vec4(radius(first.x) * turned(second.x), radius(first.y) * turned(second.y),
                radius(first.z) * turned(second.z), radius(first.w) * turned(second.w));
)";
  }
  return {};
}

/// Each invocation makes four numbers from one block of the generator (normal ones: two blocks).
///
/// Argument y: uint or float; in quads, vectors of four. Words: count (of numbers, in quads of
/// vectors), counter_low, counter_high (of the first block), seed_low, seed_high, stream (of words
/// and uniform numbers; normal numbers also use the next one).
ComputeKernel random_kernel(RandomKind kind, bool quads, std::uint32_t local_size) {
  const bool integer = kind == RandomKind::words;
  KernelParts parts{.name = kind == RandomKind::words     ? "random_words"
                            : kind == RandomKind::uniform ? "random_uniform"
                                                          : "random_normal",
                    .local_size = {local_size, 1, 1}};
  const char* vector = integer ? "uvec4" : "vec4";
  const char* element = integer ? "uint" : "float";
  parts.arguments = {{"y", quads ? vector : element, Access::write}};
  parts.words = {"count", "counter_low", "counter_high", "seed_low", "seed_high", "stream"};
  parts.functions = kPhilox;
  if (kind == RandomKind::normal) parts.functions += kNormal;
  parts.body = "  uint i = linear_item();\n";
  if (quads) parts.body += "  if (i >= count) return;\n";
  parts.body +=
      "  uint low = counter_low + i, high = counter_high + (low < i ? 1u : 0u);\n"
      "  uvec4 first = philox(low, high, stream, seed_low, seed_high);\n  ";
  parts.body += numbers(kind);
  parts.body += quads ? "  y(i) = v;\n"
                      : "  for (uint k = 0u; k < 4u; ++k)\n"
                        "    if (4u * i + k < count) y(4u * i + k) = v[k];\n";
  return make_kernel(parts);
}

// Constants of the generator.
constexpr std::uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint32_t stream,
                                    std::uint64_t seed) {
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(counter),
                                    static_cast<std::uint32_t>(counter >> 32), stream, 0};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{kMultiply0} * c[0], b = std::uint64_t{kMultiply1} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

/// Random numbers of one kind in a slice: a part of a stream.
struct RandomCall {
  RandomKind kind;
  const Slice& output;
  std::uint64_t seed, first;
  std::uint32_t stream = kRadii;  ///< for words and uniform numbers

  /// Per number: ten rounds of eight operations give four words; a normal number needs two words.
  double operations() const {
    constexpr double kWord = 20;
    switch (kind) {
      case RandomKind::words: return kWord;
      case RandomKind::uniform: return kWord + 2;
      case RandomKind::normal: return 2 * kWord + 9;
    }
    return kWord;
  }

  void on_device(OpBackend& backend) const {
    const std::uint64_t chunk =
        std::min<std::uint64_t>(backend.limits().binding_bytes / 4, 1u << 30) / 1024 * 1024;
    for (std::uint64_t begin = 0; begin < output.size; begin += chunk) {
      const std::uint64_t end = begin + std::min(chunk, output.size - begin);
      // Vectors of four as far as possible, if the slice is aligned to them.
      const bool aligned = output.byte_offset() % 16 == 0;
      const std::uint64_t middle = aligned ? end - (end - begin) % 4 : begin;
      if (middle > begin) launch(backend, begin, middle, true);
      if (end > middle) launch(backend, middle, end, false);
    }
  }

  void launch(OpBackend& backend, std::uint64_t begin, std::uint64_t end, bool quads) const {
    const std::uint32_t local = std::min(256u, backend.limits().local_size);
    const ComputeKernel& kernel =
        kernel_for(key_of("random", static_cast<std::uint64_t>(kind), quads, local),
                   [&] { return random_kernel(kind, quads, local); });
    const std::uint64_t counter = (first + begin) / 4, items = (end - begin + 3) / 4;
    Argument y = output.writes(backend, begin, end - begin, begin > 0);
    if (quads) y.element = 16;
    const std::uint32_t words[] = {low_word(quads ? items : end - begin),
                                   low_word(counter),
                                   high_word(counter),
                                   low_word(seed),
                                   high_word(seed),
                                   stream};
    backend.launch({.kernel = &kernel,
                    .arguments = {&y, 1},
                    .words = words,
                    .groups = linear_groups(backend, kernel, items)});
  }

  /// Calls use(position, words) for each block of four words in a part of the slice; the last block
  /// may be incomplete.
  template <class Use>
  void each_block(std::uint32_t of_stream, std::size_t begin, std::size_t n, const Use& use) const {
    for (std::size_t i = begin; i < begin + n; i += 4)
      use(i, philox((first + i) / 4, of_stream, seed));
  }

  template <class T, class F>
  void write_words(const F& number) const {
    T* to = output.write<T>();
    for_blocks(output.size, [&](std::size_t, std::size_t begin, std::size_t n) {
      each_block(stream, begin, n, [&](std::size_t i, const std::array<std::uint32_t, 4>& words) {
        for (std::size_t k = 0; k < std::min<std::size_t>(4, begin + n - i); ++k)
          to[i + k] = number(words[k]);
      });
    });
  }

  /// Uses the same expression in f64 as random_normal<double>.
  void write_normal() const {
    float* to = output.write<float>();
    const Expression expression = Expression::of<2>("random_normal", box_muller);
    const TileExpression<double> tiles(expression.program(), expression.numbers());
    tbb::enumerable_thread_specific<TileExpression<double>::Scratch> scratches;
    const auto fill = [&](std::uint32_t of_stream, std::size_t begin, std::size_t n, double* tile) {
      each_block(of_stream, begin, n,
                 [&](std::size_t i, const std::array<std::uint32_t, 4>& words) {
                   for (std::size_t k = 0; k < std::min<std::size_t>(4, begin + n - i); ++k)
                     tile[i - begin + k] = words[k];
                 });
    };
    static_assert(kTile % 4 == 0 && kBlock % kTile == 0);
    for_blocks(output.size, [&](std::size_t, std::size_t begin, std::size_t count) {
      auto& scratch = scratches.local();
      for (std::size_t at = begin; at < begin + count; at += kTile) {
        const std::size_t n = std::min(kTile, begin + count - at);
        fill(kRadii, at, n, tiles.input(scratch, 2, 0));
        fill(kAngles, at, n, tiles.input(scratch, 2, 1));
        tiles.run(scratch, n);
        for (std::size_t i = 0; i < n; ++i)
          to[at + i] = static_cast<float>(tiles.output(scratch, 0)[i]);
      }
    });
  }

  void on_cpu() const {
    switch (kind) {
      case RandomKind::words: return write_words<std::uint32_t>([](std::uint32_t w) { return w; });
      case RandomKind::uniform:
        return write_words<float>(
            [](std::uint32_t w) { return static_cast<float>(w >> 8) * 0x1p-24f; });
      case RandomKind::normal: return write_normal();
    }
  }

  ExecutionStats run(const char* call, const OpOptions& options) const {
    if (first % 4 != 0) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected a first place in multiples of 4, got " +
                      std::to_string(first));
    }
    expect_type(call, "results", kind == RandomKind::words ? Type::u32 : Type::f32, output.type);
    return ops::run({.op = Operation::Random,
                     .kernel = key_of("philox", static_cast<std::uint64_t>(kind)),
                     .size = output.size,
                     .work = {.operations = operations() * static_cast<double>(output.size),
                              .bytes_read = 0,
                              .bytes_written = output.bytes()},
                     .outputs = {output.storage},
                     .on_cpu = [&] { on_cpu(); },
                     .on_device = [&](OpBackend& backend) { on_device(backend); }},
                    options);
  }
};

}  // namespace

Value box_muller(Value radius, Value angle) {
  const Value u = (radius + literal(1)) * literal(0x1p-32);
  return sqrt(log(u) * literal(-2)) * cos(angle * literal(0x1.921fb54442d18p-30));
}

ExecutionStats random_words_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                 const OpOptions& options, std::uint32_t stream) {
  return RandomCall{RandomKind::words, output, seed, first, stream}.run("random_words", options);
}
ExecutionStats random_uniform_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                   const OpOptions& options) {
  return RandomCall{RandomKind::uniform, output, seed, first}.run("random_uniform", options);
}
ExecutionStats random_normal_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                  const OpOptions& options) {
  return RandomCall{RandomKind::normal, output, seed, first}.run("random_normal", options);
}

Array<std::uint32_t> random_words(std::uint64_t count, std::uint64_t seed, std::uint64_t first,
                                  const OpOptions& options, std::uint32_t stream) {
  Array<std::uint32_t> out(count);
  random_words_into(out.untyped(), seed, first, options, stream);
  return out;
}

}  // namespace topograd::ops
