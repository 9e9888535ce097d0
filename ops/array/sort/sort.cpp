// Sorting by keys: on the CPU with TBB or by radix, on devices by a network or by radix.
#include "sort.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "../../backend/compute_kernel.hpp"
#include "../../backend/kernel_store.hpp"
#include "../../backend/type.hpp"
#include "../../run/storage.hpp"
#include "../reduce/scan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

/// Inputs and outputs of a sort.
struct RadixSort {
  Slice keys;                      ///< f32, i32 or u32; not changed
  std::optional<Slice> values;     ///< u32 values of the keys; empty: their indices
  std::optional<Slice> to_keys;    ///< in ascending order, of the keys' type
  std::optional<Slice> to_values;  ///< u32
};

/// The values that a pass moves together with the keys.
enum class RadixValues : std::uint8_t {
  none,
  indices,  ///< indices 0, 1, 2, ...: written, not read
  carried
};

/// Kernels of one pass over eight bits of keys: elements of 32 bits, read as words whose integer
/// order is the elements' order (NaN last).
struct RadixKernel {
  std::uint32_t local = 256;    ///< invocations per workgroup, a divisor or a multiple of 256
  std::uint32_t per = 16;       ///< elements per invocation in a tile
  std::uint32_t subgroup = 32;  ///< invocations per subgroup, a divisor of `local`
  bool shuffle = false;         ///< true if subgroupShuffle is available
  Type from = Type::u32;        ///< f32, i32 or u32: type of the keys that are read
  Type to = Type::u32;          ///< type of the keys that are written
  bool keys_out = true;
  RadixValues values = RadixValues::none;

  std::uint32_t subgroups() const { return local / subgroup; }
  std::uint32_t tile() const { return local * per; }
  std::uint32_t shared_bytes() const;
};

/// table[digit * groups + group] = number of keys of the group's share with that digit. Arguments:
/// key, table; words: count, per_group, groups, shift.
ComputeKernel radix_count_kernel(const RadixKernel& kernel);

/// Moves each key to its position: `table` (the exclusive scan of the counts) has the first
/// position of each digit in the share. Stable. Arguments: key, table, [value], [out_key],
/// [out_value]; words as above.
ComputeKernel radix_move_kernel(const RadixKernel& kernel);

using codegen::substitute;
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

ComputeKernel sort_source(Type type, bool indices, std::uint32_t local) {
  const bool wide = type == Type::f64;
  const std::string most = std::to_string(wide ? kMostWide : kMost);
  KernelParts parts{.name = text("sort_few_", name(type)),
                    .local_size = {local, 1, 1},
                    .arguments = {{"x", "uint", Access::read}, {"y", "uint", Access::write}},
                    .words = {"count", "padded"}};
  parts.functions =
      text("struct Key {\n  uint m0;\n", wide ? "  uint m1;\n" : "", "};\n", "shared Key keys[",
           most, "];\nshared uint places[", most, "];\n",
           indices ? conversions(type).substr(0, conversions(type).find("void decode"))
                   : conversions(type),
           "bool comes_after(uint a, uint b) {\n",
           "  if (keys[a].m0 != keys[b].m0) return keys[a].m0 > keys[b].m0;\n",
           wide ? "  if (keys[a].m1 != keys[b].m1) return keys[a].m1 > keys[b].m1;\n" : "",
           "  return places[a] > places[b];\n}\n");
  parts.body = codegen::substitute(
      kBody, {{"L", std::to_string(local)},
              {"last", wide ? "Key(0xffffffffu, 0xffffffffu)" : "Key(0xffffffffu)"},
              {"result", indices ? "y(i) = places[i]" : "decode(i, keys[i])"}});
  return make_kernel(parts);
}

/// The elements as words.
Argument in_words(Argument argument) {
  argument.element = 4;
  return argument;
}

/// The division of the elements among workgroups.
struct Layout {
  RadixKernel kernel;
  std::uint32_t per_group = 0, groups = 0;
};

Layout layout_for(const OpBackend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  Layout out;
  RadixKernel& kernel = out.kernel;
  kernel.subgroup = limits.subgroup_size;
  kernel.shuffle = limits.subgroup_shuffle;
  if (limits.occupied_by_few) kernel.local = 8 * std::max(limits.subgroup_size, 1u), kernel.per = 8;
  kernel.local = std::min(kernel.local, limits.local_size);
  while (kernel.per > 1 && kernel.shared_bytes() > limits.shared_bytes) kernel.per /= 2;
  const std::uint64_t tile = kernel.tile();
  const std::uint64_t most = limits.occupied_by_few ? 16 : 2112;
  // Loop iterations for one tile; an invocation has a limited number.
  const std::uint64_t digits = 256 / kernel.local + 1;
  const std::uint64_t turns = digits * (3 * kernel.subgroups() + 8) + 16 * kernel.per + 16;
  const std::uint64_t tiles = std::min(limits.loop_iterations, 1u << 24) / turns;
  const std::uint64_t share =
      std::min((count + most - 1) / most, std::max(tiles, std::uint64_t{1}) * tile);
  out.per_group = static_cast<std::uint32_t>((share + tile - 1) / tile * tile);
  out.groups = static_cast<std::uint32_t>((count + out.per_group - 1) / out.per_group);
  return out;
}

ir::Hash128 key_of_kernel(std::string_view what, const RadixKernel& k) {
  return key_of(what, k.local, k.per, k.subgroup, k.shuffle, k.from, k.to, k.keys_out, k.values);
}

/// The passes of one sort, with the slices that each reads and writes.
class Passes {
 public:
  Passes(OpBackend& backend, const RadixSort& sort)
      : backend_(backend),
        sort_(sort),
        layout_(layout_for(backend, sort.keys.size)),
        table_(make_slice(Type::u32, 256ull * layout_.groups, "digit counts")),
        starts_(make_slice(Type::u32, 256ull * layout_.groups, "digit starts")) {
    for (std::size_t k = 0; k < 2; ++k) {
      keys_[k] = make_slice(Type::u32, sort.keys.size, "sorted keys");
      if (sort.to_values) values_[k] = make_slice(Type::u32, sort.keys.size, "sorted values");
    }
  }

  void run() {
    Slice keys = sort_.keys;
    std::optional<Slice> values = sort_.values;
    for (std::uint32_t pass = 0; pass < 4; ++pass) {
      const bool last = pass == 3;
      const std::optional<Slice> to = last ? sort_.to_keys : keys_[pass % 2];
      const std::optional<Slice> to_values = last ? sort_.to_values : values_[pass % 2];
      move(8 * pass, keys, values, to, to_values);
      if (to) keys = *to;
      values = to_values;
    }
  }

 private:
  void launch(const ComputeKernel& kernel, std::span<const Argument> arguments,
              std::uint32_t shift) {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(sort_.keys.size), layout_.per_group,
                                   layout_.groups, shift};
    const std::uint64_t items = std::uint64_t{layout_.groups} * layout_.kernel.local;
    backend_.launch({.kernel = &kernel,
                     .arguments = arguments,
                     .words = words,
                     .groups = linear_groups(backend_, kernel, items)});
  }

  void move(std::uint32_t shift, const Slice& keys, const std::optional<Slice>& values,
            const std::optional<Slice>& to, const std::optional<Slice>& to_values) {
    RadixKernel kernel = layout_.kernel;
    kernel.from = keys.type;
    const Argument counted[] = {keys.reads(backend_), table_.writes(backend_)};
    launch(kernel_for(key_of("radix_count", kernel.local, kernel.from),
                      [&] { return radix_count_kernel(kernel); }),
           counted, shift);
    scan_on(backend_, table_, starts_);
    kernel.to = to ? to->type : Type::u32;
    kernel.keys_out = to.has_value();
    if (to_values) kernel.values = values ? RadixValues::carried : RadixValues::indices;
    std::vector<Argument> moved;
    moved.reserve(5);
    moved.push_back(keys.reads(backend_));
    moved.push_back(starts_.reads(backend_));
    if (to_values && values) moved.push_back(values->reads(backend_));
    if (to) moved.push_back(to->writes(backend_));
    if (to_values) moved.push_back(to_values->writes(backend_));
    launch(
        kernel_for(key_of_kernel("radix_move", kernel), [&] { return radix_move_kernel(kernel); }),
        moved, shift);
  }

  OpBackend& backend_;
  const RadixSort& sort_;
  const Layout layout_;
  const Slice table_, starts_;
  Slice keys_[2];
  std::optional<Slice> values_[2];
};

/// True if a workgroup can hold the elements: 2,048, or 1,024 of f64.
bool fits_bitonic(const Slice& x) { return x.size <= (x.type == Type::f64 ? kMostWide : kMost); }

/// Writes the sorted elements or, to u32, their indices in that order: stable, NaN last, as
/// sort_into(). Queues one launch. Source: Batcher, Sorting networks and their applications (1968).
void bitonic_sort(OpBackend& backend, const Slice& x, const Slice& output, bool indices) {
  if (x.size == 0) return;
  const std::uint32_t local =
      std::min(backend.limits().occupied_by_few ? 64u : 256u, backend.limits().local_size);
  const ComputeKernel& kernel = kernel_for(key_of("bitonic", x.type, indices, local),
                                           [&] { return sort_source(x.type, indices, local); });
  const Argument arguments[] = {in_words(x.reads(backend)), in_words(output.writes(backend))};
  const auto count = static_cast<std::uint32_t>(x.size);
  const std::uint32_t words[] = {count, std::bit_ceil(count)};
  backend.launch({.kernel = &kernel, .arguments = arguments, .words = words, .groups = {}});
}

/// The reason why the device cannot sort that many elements; empty if it can.
std::string radix_refusal(const OpBackend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  if (limits.subgroup_size < 4 || !limits.subgroup_arithmetic) return "expects subgroups";
  if (8 * count > limits.binding_bytes) return "cannot bind so many elements at once";
  return {};
}

/// Queues a stable sort with NaN last. Outputs must not overlap inputs.
void radix_sort(OpBackend& backend, const RadixSort& sort) { Passes(backend, sort).run(); }

/// The high or low words of f64 elements, in the integer order of elements with equal other words.
void encode_words(OpBackend& backend, const Slice& x, const Slice& keys, bool high) {
  const std::uint32_t local = std::min(256u, backend.limits().local_size);
  const ComputeKernel& kernel = kernel_for(
      KernelFile::sort_encode, Type::u32,
      {{"word", high ? "high" : "low"}, {"positive", high ? "high | 0x80000000u" : "low"}}, local);
  Argument from = x.reads(backend);
  from.element = 4;
  const Argument arguments[] = {std::move(from), keys.writes(backend)};
  const std::uint32_t words[] = {static_cast<std::uint32_t>(x.size)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, x.size)});
}

// Kernels of a radix sort's passes: counts by shares, and tiles that are sorted in shared memory
// before they are moved, so that neighbours write to neighbouring elements.

/// Loops over variables of one invocation are unrolled, because an array with variable indices
/// would be in memory.
constexpr const char* kUnroll = "GL_EXT_control_flow_attributes";

constexpr std::string_view kFloatWord = R"(uint word_of(float x) {
  uint bits = floatBitsToUint(x);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu
         : (bits >> 31) != 0u ? ~bits : bits | 0x80000000u;
}
)";
constexpr std::string_view kFloatElement = R"(float element_of(uint k) {
  return uintBitsToFloat((k >> 31) != 0u ? k & 0x7fffffffu : ~k);
}
)";

std::string word_function(Type from) {
  if (from == Type::f32) return std::string(kFloatWord);
  if (from == Type::i32) return "uint word_of(int x) { return uint(x) ^ 0x80000000u; }\n";
  return "uint word_of(uint x) { return x; }\n";
}
std::string element_function(Type to) {
  if (to == Type::f32) return std::string(kFloatElement);
  if (to == Type::i32) return "int element_of(uint k) { return int(k ^ 0x80000000u); }\n";
  return "uint element_of(uint k) { return k; }\n";
}

constexpr std::string_view kCountBody = R"(  uint lid = gl_LocalInvocationID.x;
  for (uint d = lid; d < 256u; d += {L}u) counts[d] = 0u;
  barrier();
  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
  uint i = begin + lid;
  for (; i + {ahead}u < end; i += {step}u) {
    uint words[8];
    [[unroll]] for (uint k = 0u; k < 8u; ++k) words[k] = word_of(key(i + {L}u * k));
    [[unroll]] for (uint k = 0u; k < 8u; ++k)
      atomicAdd(counts[bitfieldExtract(words[k], int(shift), 8)], 1u);
  }
  for (; i < end; i += {L}u)
    atomicAdd(counts[bitfieldExtract(word_of(key(i)), int(shift), 8)], 1u);
  barrier();
  for (uint d = lid; d < 256u; d += {L}u) table(d * groups + linear_group()) = counts[d];
)";

/// Ranks among the tile's keys of equal digit: by ballots within a subgroup, by counters between
/// subgroups. Elements beyond the share count as the largest word, after all others.
constexpr std::string_view kRank = R"(    uint words[{P}];
    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint i = tile + own + k * {G}u;
      words[k] = i < end ? word_of(key(i)) : ~0u;
    }
    for (uint k = lid; k < {C}u; k += {L}u) counters[k] = 0u;
    barrier();
    uint ranks[{P}];
    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint digit = bitfieldExtract(words[k], int(shift), 8);
      {ballot} equal = subgroupBallot(true){x};
      [[unroll]] for (int bit = 0; bit < 8; ++bit) {
        bool one = bitfieldExtract(digit, bit, 1) != 0u;
        equal &= subgroupBallot(one){x} ^ (one ? {ballot}(0u) : {ballot}(~0u));
      }
      uint leader = subgroupBallotFindLSB({equal});
      uint same = subgroupBallotBitCount({equal});
{update}      ranks[k] = had + subgroupBallotExclusiveBitCount({equal});
    }
    barrier();
)";
constexpr std::string_view kShuffled = R"(      uint had = 0u;
      if (leader == gl_SubgroupInvocationID) had = atomicAdd(counters[row + digit], same);
      had = subgroupShuffle(had, leader);
)";
constexpr std::string_view kStored = R"(      uint had = counters[row + digit];
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      if (leader == gl_SubgroupInvocationID) counters[row + digit] = had + same;
      subgroupMemoryBarrierShared();
      subgroupBarrier();
)";

/// The first position of each digit in the tile, {D} digits per invocation.
constexpr std::string_view kStarts = R"(    uint inside = 0u;
    if (lid * {D}u < 256u) {
      [[unroll]] for (uint e = 0u; e < {D}u; ++e) {
        uint d = lid * {D}u + e, sum = 0u;
        [[unroll]] for (uint s = 0u; s < {S}u; ++s) {
          uint here = counters[s * 256u + d];
          counters[s * 256u + d] = sum;
          sum += here;
        }
        starts[d] = inside;
        totals[d] = sum;
        inside += sum;
      }
    }
    uint before = subgroupExclusiveAdd(inside);
    if (gl_SubgroupInvocationID == {G}u - 1u) sums[gl_SubgroupID] = before + inside;
    barrier();
    if (lid * {D}u < 256u) {
      for (uint s = 0u; s < gl_SubgroupID; ++s) before += sums[s];
      [[unroll]] for (uint e = 0u; e < {D}u; ++e) {
        uint d = lid * {D}u + e;
        uint start = starts[d] + before;
        starts[d] = start;
        offsets[d] = base[d] - start;
        base[d] += totals[d];
      }
    }
    barrier();
)";

constexpr std::string_view kMove = R"(    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint digit = bitfieldExtract(words[k], int(shift), 8);
      ranks[k] += starts[digit] + counters[row + digit];
    }
    barrier();
    [[unroll]] for (uint k = 0u; k < {P}u; ++k) sorted[ranks[k]] = words[k];
    barrier();
    uint here = min({T}u, end - tile);
{places}    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint j = k * {L}u + lid;
      if (j < here) {
        uint word = sorted[j];
        uint to = offsets[bitfieldExtract(word, int(shift), 8)] + j;
{key}      }
    }
    barrier();
)";
constexpr std::string_view kValues = R"(    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint i = tile + own + k * {G}u;
      if (i < end) sorted[ranks[k]] = {value};
    }
    barrier();
    [[unroll]] for (uint k = 0u; k < {P}u; ++k) {
      uint j = k * {L}u + lid;
      if (j < here) out_value(places[k]) = sorted[j];
    }
    barrier();
)";

std::string number(std::uint32_t value) { return std::to_string(value); }

/// Statements of the loop over tiles.
std::string move_tile(const RadixKernel& kernel) {
  const bool values = kernel.values != RadixValues::none, small = kernel.subgroup <= 32;
  const std::string indices = values ? text("    uint places[", kernel.per, "];\n") : std::string();
  std::string key = values ? "        places[k] = to;\n" : "";
  if (kernel.keys_out) key += "        out_key(to) = element_of(word);\n";
  const std::string_view value = kernel.values == RadixValues::indices ? "i" : "value(i)";
  const std::string all = std::string(kRank) + std::string(kStarts) + std::string(kMove) +
                          (values ? std::string(kValues) : std::string());
  return substitute(substitute(all, {{"update", std::string(kernel.shuffle ? kShuffled : kStored)},
                                     {"places", indices},
                                     {"key", key},
                                     {"value", std::string(value)}}),
                    {{"L", number(kernel.local)},
                     {"P", number(kernel.per)},
                     {"S", number(kernel.subgroups())},
                     {"G", number(kernel.subgroup)},
                     {"C", number(256 * kernel.subgroups())},
                     {"D", number(std::max(1u, 256 / kernel.local))},
                     {"T", number(kernel.tile())},
                     {"ballot", small ? "uint" : "uvec4"},
                     {"x", small ? ".x" : ""},
                     {"equal", small ? "uvec4(equal, 0u, 0u, 0u)" : "equal"}});
}

std::uint32_t RadixKernel::shared_bytes() const {
  return 4 * (4 * 256 + std::max(256 * subgroups(), tile()) + subgroups());
}

ComputeKernel radix_count_kernel(const RadixKernel& kernel) {
  return make_kernel({.name = "radix_count",
                      .local_size = {kernel.local, 1, 1},
                      .arguments = {{"key", std::string(glsl_name(kernel.from)), Access::read},
                                    {"table", "uint", Access::write}},
                      .words = {"count", "per_group", "groups", "shift"},
                      .extensions = {kUnroll},
                      .functions = "shared uint counts[256];\n" + word_function(kernel.from),
                      .body = substitute(kCountBody, {{"L", number(kernel.local)},
                                                      {"ahead", number(7 * kernel.local)},
                                                      {"step", number(8 * kernel.local)}})});
}

ComputeKernel radix_move_kernel(const RadixKernel& kernel) {
  KernelParts parts{.name = kernel.values == RadixValues::none ? "radix_move" : "radix_move_values",
                    .local_size = {kernel.local, 1, 1},
                    .arguments = {{"key", std::string(glsl_name(kernel.from)), Access::read},
                                  {"table", "uint", Access::read}},
                    .words = {"count", "per_group", "groups", "shift"},
                    .extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_ballot",
                                   "GL_KHR_shader_subgroup_arithmetic", kUnroll}};
  if (kernel.shuffle) parts.extensions.emplace_back("GL_KHR_shader_subgroup_shuffle");
  if (kernel.values == RadixValues::carried)
    parts.arguments.push_back({"value", "uint", Access::read});
  if (kernel.keys_out)
    parts.arguments.push_back({"out_key", std::string(glsl_name(kernel.to)), Access::write});
  if (kernel.values != RadixValues::none)
    parts.arguments.push_back({"out_value", "uint", Access::write});
  parts.functions =
      text("shared uint base[256];\nshared uint totals[256];\nshared uint starts[256];\n",
           "shared uint offsets[256];\nshared uint sums[", kernel.subgroups(),
           "];\n// Counters until elements are ranked, then the elements in order.\n",
           "shared uint pool[", std::max(256 * kernel.subgroups(), kernel.tile()),
           "];\n#define counters pool\n#define sorted pool\n") +
      word_function(kernel.from) + element_function(kernel.to);
  parts.body = text(
      "  uint lid = gl_LocalInvocationID.x;\n  for (uint d = lid; d < 256u; d += ", kernel.local,
      "u) base[d] = table(d * groups + linear_group());\n  uint begin = linear_group() * "
      "per_group;\n  uint end = min(count, begin + per_group);\n  uint row = gl_SubgroupID * "
      "256u;\n  uint own = gl_SubgroupID * ",
      kernel.subgroup * kernel.per, "u + gl_SubgroupInvocationID;\n  for (uint tile = begin; tile ",
      "< end; tile += ", kernel.tile(), "u) {\n", move_tile(kernel), "  }\n");
  return make_kernel(parts);
}

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// A key whose integer order is the order of the elements; NaN last.
template <class T>
Key<T> encode(T x) {
  using K = Key<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return ~K{0};
    const K bits = std::bit_cast<K>(x);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<K>(x) ^ kSign;
  } else {
    return x;
  }
}
template <class T>
T decode(Key<T> key) {
  using K = Key<T>;
  constexpr K kSign = K{1} << (8 * sizeof(K) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>((key & kSign) != 0 ? key & ~kSign : ~key);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(key ^ kSign);
  } else {
    return key;
  }
}

template <class T>
std::vector<Key<T>> keys_of(const Slice& x) {
  const T* from = x.read<T>();
  std::vector<Key<T>> keys(x.size);
  ir::parallel_for(std::size_t{0}, keys.size(), [&](std::size_t i) { keys[i] = encode(from[i]); });
  return keys;
}

template <class T>
void sort_on_cpu(const Slice& x, const Slice& output) {
  std::vector<Key<T>> keys = keys_of<T>(x);
  ir::parallel_sort(std::span(keys));
  T* to = output.write<T>();
  ir::parallel_for(std::size_t{0}, keys.size(), [&](std::size_t i) { to[i] = decode<T>(keys[i]); });
}

template <class T>
void argsort_on_cpu(const Slice& x, const Slice& output) {
  const std::vector<Key<T>> keys = keys_of<T>(x);
  std::uint32_t* to = output.write<std::uint32_t>();
  for (std::uint32_t i = 0; i < keys.size(); ++i) to[i] = i;
  ir::parallel_sort({to, keys.size()}, std::span(keys));
}

void check_device(const OpBackend& backend, const char* call, const Slice& x) {
  const std::string why = radix_refusal(backend, x.size);
  if (why.empty()) return;
  throw Error(ErrorCode::Unsupported, std::string(call) + " of " + std::to_string(x.size) +
                                          " elements on \"" + backend.facts().name + "\": " + why);
}

/// Indices of sorted f64 elements: sorts by the low words, then stably by the high words.
void argsort_wide(OpBackend& backend, const Slice& x, const Slice& output) {
  const Slice low = make_slice(Type::u32, x.size, "keys"), high = make_slice(Type::u32, x.size);
  const Slice order = make_slice(Type::u32, x.size, "places");
  encode_words(backend, x, low, false);
  radix_sort(backend, {.keys = low, .to_values = order});
  encode_words(backend, x, high, true);
  gather_on(backend, high, order, low);
  radix_sort(backend, {.keys = low, .values = order, .to_values = output});
}

void argsort_on_device(OpBackend& backend, const Slice& x, const Slice& output) {
  if (x.type == Type::f64) return argsort_wide(backend, x, output);
  radix_sort(backend, {.keys = x, .to_values = output});
}

OpCall call_for(const char* what, const Slice& x, const Slice& output) {
  // Number of comparisons per element.
  const double rounds = std::max(1.0, std::log2(static_cast<double>(x.size)));
  return {.op = Operation::Sort,
          .kernel = key_of(what, x.type),
          .size = x.size,
          .work = {.operations = rounds * static_cast<double>(x.size),
                   .bytes_read = x.bytes(),
                   .bytes_written = output.bytes(),
                   .reads = rounds * static_cast<double>(x.bytes()),
                   .steps = rounds,
                   .pattern = runtime::hybrid::MemoryPattern::scatter},
          .inputs = {x.storage},
          .outputs = {output.storage}};
}

}  // namespace

ExecutionStats sort_into(const Slice& x, const Slice& output, const OpOptions& options) {
  expect_size("sort", x.size, output.size);
  expect_type("sort", "results", x.type, output.type);
  OpCall call = call_for("sort", x, output);
  call.on_cpu = [&] {
    with_type(x.type, [&](auto element) { sort_on_cpu<decltype(element)>(x, output); });
  };
  call.on_device = [&](OpBackend& backend) {
    if (fits_bitonic(x)) return bitonic_sort(backend, x, output, false);
    check_device(backend, "sort", x);
    if (x.size == 0) return;
    if (x.type != Type::f64) return radix_sort(backend, {.keys = x, .to_keys = output});
    const Slice order = make_slice(Type::u32, x.size, "places");
    argsort_wide(backend, x, order);
    if (!overlap(x, output)) return gather_on(backend, x, order, output);
    const Slice sorted = make_slice(x.type, x.size);
    gather_on(backend, x, order, sorted);
    const Argument from = sorted.reads(backend), to = output.writes(backend);
    backend.copy(from.memory, from.offset, to.memory, to.offset, x.bytes());
  };
  return run(call, options);
}

ExecutionStats argsort_into(const Slice& x, const Slice& output, const OpOptions& options) {
  expect_size("argsort", x.size, output.size);
  expect_type("argsort", "results", Type::u32, output.type);
  OpCall call = call_for("argsort", x, output);
  call.on_cpu = [&] {
    with_type(x.type, [&](auto element) { argsort_on_cpu<decltype(element)>(x, output); });
  };
  call.on_device = [&](OpBackend& backend) {
    if (fits_bitonic(x)) return bitonic_sort(backend, x, output, true);
    check_device(backend, "argsort", x);
    if (x.size > 0) argsort_on_device(backend, x, output);
  };
  return run(call, options);
}

}  // namespace topograd::ops
