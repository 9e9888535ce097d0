// The sorting network, and words whose integer order is that of the elements.
#include "bitonic.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"

#include <algorithm>
#include <bit>

namespace topograd::ops {
namespace {

using codegen::text;

// Keys and indices fit the 16 KiB of shared memory that every device has.
constexpr std::uint32_t kMost = 2048, kMostWide = 1024;

constexpr std::string_view kFloat = R"(
Key encode(uint i) {
  uint bits = x(i);
  bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return Key(is_nan ? 0xffffffffu : (bits >> 31) != 0u ? ~bits : bits | 0x80000000u);
}
void decode(uint i, Key k) { y(i) = (k.m0 >> 31) != 0u ? k.m0 & 0x7fffffffu : ~k.m0; }
)";
constexpr std::string_view kInt = R"(
Key encode(uint i) { return Key(x(i) ^ 0x80000000u); }
void decode(uint i, Key k) { y(i) = k.m0 ^ 0x80000000u; }
)";
constexpr std::string_view kUint = R"(
Key encode(uint i) { return Key(x(i)); }
void decode(uint i, Key k) { y(i) = k.m0; }
)";
constexpr std::string_view kDouble = R"(
Key encode(uint i) {
  uint low = x(2u * i), high = x(2u * i + 1u);
  uint magnitude = high & 0x7fffffffu;
  bool is_nan = magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && low != 0u);
  if (is_nan) return Key(0xffffffffu, 0xffffffffu);
  return (high >> 31) != 0u ? Key(~high, ~low) : Key(high | 0x80000000u, low);
}
void decode(uint i, Key k) {
  bool positive = (k.m0 >> 31) != 0u;
  y(2u * i) = positive ? k.m1 : ~k.m1;
  y(2u * i + 1u) = positive ? k.m0 & 0x7fffffffu : ~k.m0;
}
)";

std::string_view conversions(Type type) {
  switch (type) {
    case Type::f64: return kDouble;
    case Type::i32: return kInt;
    case Type::u32: return kUint;
    case Type::f32:
    case Type::f16: break;
  }
  return kFloat;
}

constexpr std::string_view kBody = R"(  uint lid = gl_LocalInvocationID.x;
  for (uint i = lid; i < padded; i += {L}u) {
    keys[i] = i < count ? encode(i) : {last};
    places[i] = i;
  }
  barrier();
  for (uint run = 2u; run <= padded; run *= 2u) {
    for (uint apart = run / 2u; apart > 0u; apart /= 2u) {
      for (uint pair = lid; pair < padded / 2u; pair += {L}u) {
        uint a = 2u * pair - (pair & (apart - 1u));
        uint b = a + apart;
        if (comes_after(a, b) == ((a & run) == 0u)) {
          Key key = keys[a];
          keys[a] = keys[b];
          keys[b] = key;
          uint place = places[a];
          places[a] = places[b];
          places[b] = place;
        }
      }
      barrier();
    }
  }
  for (uint i = lid; i < count; i += {L}u) {result};
)";

ComputeKernel sort_source(Type type, bool places, std::uint32_t local) {
  const bool wide = type == Type::f64;
  const std::string most = std::to_string(wide ? kMostWide : kMost);
  KernelParts parts{.name = text("sort_few_", name(type)),
                    .local_size = {local, 1, 1},
                    .arguments = {{"x", "uint", Access::read}, {"y", "uint", Access::write}},
                    .words = {"count", "padded"}};
  parts.functions =
      text("struct Key {\n  uint m0;\n", wide ? "  uint m1;\n" : "", "};\n", "shared Key keys[",
           most, "];\nshared uint places[", most, "];\n",
           places ? conversions(type).substr(0, conversions(type).find("void decode"))
                  : conversions(type),
           "bool comes_after(uint a, uint b) {\n",
           "  if (keys[a].m0 != keys[b].m0) return keys[a].m0 > keys[b].m0;\n",
           wide ? "  if (keys[a].m1 != keys[b].m1) return keys[a].m1 > keys[b].m1;\n" : "",
           "  return places[a] > places[b];\n}\n");
  parts.body = codegen::substitute(
      kBody, {{"L", std::to_string(local)},
              {"last", wide ? "Key(0xffffffffu, 0xffffffffu)" : "Key(0xffffffffu)"},
              {"result", places ? "y(i) = places[i]" : "decode(i, keys[i])"}});
  return make_kernel(parts);
}

/// The elements as words.
Argument in_words(Argument argument) {
  argument.element = 4;
  return argument;
}

}  // namespace

bool fits_bitonic(const Slice& x) { return x.size <= (x.type == Type::f64 ? kMostWide : kMost); }

void bitonic_sort(OpBackend& backend, const Slice& x, const Slice& output, bool places) {
  if (x.size == 0) return;
  const std::uint32_t local =
      std::min(backend.limits().occupied_by_few ? 64u : 256u, backend.limits().local_size);
  const ComputeKernel& kernel = kernel_for(key_of("bitonic", x.type, places, local),
                                           [&] { return sort_source(x.type, places, local); });
  const Argument arguments[] = {in_words(x.reads(backend)), in_words(output.writes(backend))};
  const auto count = static_cast<std::uint32_t>(x.size);
  const std::uint32_t words[] = {count, std::bit_ceil(count)};
  backend.launch({.kernel = &kernel, .arguments = arguments, .words = words, .groups = {}});
}

}  // namespace topograd::ops
