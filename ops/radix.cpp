// One pass of a radix sort: count digits by shares, scan the counts, move what each tile has
// sorted.
#include <topograd/ops/radix.hpp>

#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/ops/kernel_store.hpp>
#include <topograd/ops/scan.hpp>

#include <algorithm>
#include <utility>

namespace topograd::ops {
namespace {

using codegen::text;

/// How the elements are divided among workgroups.
struct Layout {
  std::uint32_t local = 256, per = 16;  ///< invocations; elements of one in a tile
  std::uint32_t subgroups = 8;          ///< of a workgroup
  std::uint32_t per_group = 0, groups = 0;
};

Layout layout_for(const Backend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  Layout out;
  if (limits.occupied_by_few) out.local = 8 * std::max(limits.subgroup_size, 1u), out.per = 8;
  out.local = std::min(out.local, limits.local_size);
  out.subgroups = out.local / limits.subgroup_size;
  // Counters of subgroups, keys and values of a tile, and three words for each digit.
  const auto shared = [&] { return 4 * (256 * out.subgroups + 2 * out.local * out.per + 4 * 256); };
  while (out.per > 1 && shared() > limits.shared_bytes) out.per /= 2;
  const std::uint64_t tile = std::uint64_t{out.local} * out.per;
  const std::uint64_t most = limits.occupied_by_few ? 16 : 1056;
  // Turns of all loops of one tile, of which an invocation has a bounded number.
  const std::uint64_t digits = 256 / out.local + 1;
  const std::uint64_t turns = digits * (2 * out.subgroups + 24) + 12 * out.per + 16;
  const std::uint64_t tiles = std::min(limits.loop_iterations, 1u << 24) / turns;
  const std::uint64_t share =
      std::min((count + most - 1) / most, std::max(tiles, std::uint64_t{1}) * tile);
  out.per_group = static_cast<std::uint32_t>((share + tile - 1) / tile * tile);
  out.groups = static_cast<std::uint32_t>((count + out.per_group - 1) / out.per_group);
  return out;
}

constexpr std::string_view kCountBody = R"(  uint lid = gl_LocalInvocationID.x;
  for (uint d = lid; d < 256u; d += {L}u) counts[d] = 0u;
  barrier();
  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
  for (uint i = begin + lid; i < end; i += {L}u) atomicAdd(counts[(key(i) >> shift) & 255u], 1u);
  barrier();
  for (uint d = lid; d < 256u; d += {L}u) table(d * groups + linear_group()) = counts[d];
)";

KernelText count_text(const Layout& layout) {
  return make_kernel(
      {.name = "radix_count",
       .local_size = {layout.local, 1, 1},
       .arguments = {{"key", "uint", Access::read}, {"table", "uint", Access::write}},
       .words = {"count", "per_group", "groups", "shift"},
       .functions = "shared uint counts[256];\n",
       .body = codegen::substitute(kCountBody, {{"L", std::to_string(layout.local)}})});
}

/// A tile's elements are ranked among those of equal digit: within a subgroup by ballots, between
/// subgroups by their counters, so that their order stays.
constexpr std::string_view kMoveBody = R"(  uint lid = gl_LocalInvocationID.x;
  for (uint d = lid; d < 256u; d += {L}u) base[d] = table(d * groups + linear_group());
  uint begin = linear_group() * per_group;
  uint end = min(count, begin + per_group);
  uint own = gl_SubgroupID * gl_SubgroupSize * {P}u + gl_SubgroupInvocationID;
  for (uint tile = begin; tile < end; tile += {T}u) {
    for (uint k = lid; k < 256u * {S}u; k += {L}u) counters[k] = 0u;
    barrier();
    uint keys[{P}];
    uint ranks[{P}];
    for (uint k = 0u; k < {P}u; ++k) {
      uint i = tile + own + k * gl_SubgroupSize;
      bool there = i < end;
      keys[k] = there ? key(i) : 0u;
      uint digit = (keys[k] >> shift) & 255u;
      uvec4 equal = subgroupBallot(there);
      for (uint bit = 0u; bit < 8u; ++bit) {
        bool one = ((digit >> bit) & 1u) != 0u;
        uvec4 ones = subgroupBallot(one);
        equal &= one ? ones : ~ones;
      }
      uint slot = gl_SubgroupID * 256u + digit;
      ranks[k] = counters[slot] + subgroupBallotExclusiveBitCount(equal);
      subgroupMemoryBarrierShared();
      subgroupBarrier();
      if (there && subgroupBallotFindLSB(equal) == gl_SubgroupInvocationID)
        counters[slot] += subgroupBallotBitCount(equal);
      subgroupMemoryBarrierShared();
      subgroupBarrier();
    }
    barrier();
    for (uint d = lid; d < 256u; d += {L}u) {
      uint sum = 0u;
      for (uint s = 0u; s < {S}u; ++s) {
        uint here = counters[s * 256u + d];
        counters[s * 256u + d] = sum;
        sum += here;
      }
      totals[d] = sum;
      starts[d] = sum;
    }
    barrier();
    for (uint width = 1u; width < 256u; width *= 2u) {
      for (uint d = lid; d < 256u; d += {L}u)
        sums[d] = starts[d] + (d >= width ? starts[d - width] : 0u);
      barrier();
      for (uint d = lid; d < 256u; d += {L}u) starts[d] = sums[d];
      barrier();
    }
    for (uint d = lid; d < 256u; d += {L}u) starts[d] -= totals[d];
    barrier();
    for (uint k = 0u; k < {P}u; ++k) {
      uint i = tile + own + k * gl_SubgroupSize;
      if (i < end) {
        uint digit = (keys[k] >> shift) & 255u;
        uint place = starts[digit] + counters[gl_SubgroupID * 256u + digit] + ranks[k];
        sorted_keys[place] = keys[k];
{stage}      }
    }
    barrier();
    uint here = min({T}u, end - tile);
    for (uint j = lid; j < here; j += {L}u) {
      uint one = sorted_keys[j];
      uint digit = (one >> shift) & 255u;
      uint to = base[digit] + j - starts[digit];
      out_key(to) = one;
{move}    }
    barrier();
    for (uint d = lid; d < 256u; d += {L}u) base[d] += totals[d];
    barrier();
  }
)";

KernelText move_text(const Layout& layout, bool values) {
  const std::uint32_t tile = layout.local * layout.per;
  KernelParts parts{
      .name = values ? "radix_move_values" : "radix_move",
      .local_size = {layout.local, 1, 1},
      .arguments = {{"key", "uint", Access::read},
                    {"table", "uint", Access::read},
                    {"out_key", "uint", Access::write}},
      .words = {"count", "per_group", "groups", "shift"},
      .extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_ballot"}};
  if (values) {
    parts.arguments.push_back({"value", "uint", Access::read});
    parts.arguments.push_back({"out_value", "uint", Access::write});
  }
  parts.functions = text("shared uint base[256];\nshared uint totals[256];\n",
                         "shared uint starts[256];\nshared uint sums[256];\nshared uint counters[",
                         256 * layout.subgroups, "];\nshared uint sorted_keys[", tile, "];\n");
  if (values) parts.functions += text("shared uint sorted_values[", tile, "];\n");
  parts.body = codegen::substitute(
      kMoveBody, {{"L", std::to_string(layout.local)},
                  {"P", std::to_string(layout.per)},
                  {"S", std::to_string(layout.subgroups)},
                  {"T", std::to_string(tile)},
                  {"stage", values ? "        sorted_values[place] = value(i);\n" : ""},
                  {"move", values ? "      out_value(to) = sorted_values[j];\n" : ""}});
  return make_kernel(parts);
}

void launch(Backend& backend, const KernelText& kernel, std::span<const Argument> arguments,
            std::span<const std::uint32_t> words, std::uint64_t items) {
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, items)});
}

constexpr std::string_view kEncode32 = R"(  uint bits = uint(WORD(x(i)));
  y(i) = (bits & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu
         : (bits >> 31) != 0u ? ~bits : bits | 0x80000000u;
)";
constexpr std::string_view kEncode64 = R"(  uint low = x(2u * i), high = x(2u * i + 1u);
  uint magnitude = high & 0x7fffffffu;
  bool is_nan = magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && low != 0u);
  uint word = {word};
  bool negative = (high >> 31) != 0u;
  y(i) = is_nan ? 0xffffffffu : negative ? ~word : {positive};
)";

/// One element at a time; f64 as its two words.
KernelText element_text(const char* name, const char* from, const char* to, std::string body,
                        std::uint32_t local) {
  KernelParts parts{.name = name, .local_size = {local, 1, 1}, .words = {"count"}};
  if (*from != '\0') parts.arguments.push_back({"x", from, Access::read});
  parts.arguments.push_back({"y", to, Access::write});
  parts.body = "  uint i = linear_item();\n  if (i >= count) return;\n" + std::move(body);
  return make_kernel(parts);
}

std::uint32_t local_size(const Backend& backend) {
  return std::min(256u, backend.limits().local_size);
}

std::string encode_body(Type type, bool high) {
  if (type == Type::u32) return "  y(i) = x(i);\n";
  if (type == Type::i32) return "  y(i) = uint(x(i)) ^ 0x80000000u;\n";
  if (type == Type::f64) {
    return codegen::substitute(kEncode64, {{"word", high ? "high" : "low"},
                                           {"positive", high ? "word | 0x80000000u" : "word"}});
  }
  std::string body(kEncode32);
  body.replace(body.find("uint(WORD(x(i)))"), 16, "floatBitsToUint(x(i))");
  return body;
}

}  // namespace

std::string radix_refusal(const Backend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  if (limits.subgroup_size < 4 || !limits.subgroup_arithmetic) return "expects subgroups";
  if (8 * count > limits.binding_bytes) return "cannot bind so many elements at once";
  return {};
}

Sorted radix_sort(Backend& backend, const Slice& keys, const std::optional<Slice>& values) {
  const std::uint64_t count = keys.size;
  const Layout layout = layout_for(backend, count);
  const KernelText& counting =
      kernel_for(key_of("radix_count", layout.local), [&] { return count_text(layout); });
  const KernelText& moving = kernel_for(
      key_of("radix_move", layout.local, layout.per, layout.subgroups, values.has_value()),
      [&] { return move_text(layout, values.has_value()); });
  Sorted from{keys, values};
  Sorted to{make_slice(Type::u32, count, "sorted keys"), std::nullopt};
  if (values) to.values = make_slice(Type::u32, count, "sorted values");
  const Slice table = make_slice(Type::u32, 256ull * layout.groups, "digit counts");
  const Slice starts = make_slice(Type::u32, 256ull * layout.groups, "digit starts");
  for (std::uint32_t shift = 0; shift < 32; shift += 8) {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(count), layout.per_group,
                                   layout.groups, shift};
    const std::uint64_t items = std::uint64_t{layout.groups} * layout.local;
    const Argument counted[] = {from.keys.reads(backend), table.writes(backend)};
    launch(backend, counting, counted, words, items);
    scan_on(backend, table, starts);
    std::vector<Argument> moved = {from.keys.reads(backend), starts.reads(backend),
                                   to.keys.writes(backend)};
    if (values) {
      moved.push_back(from.values->reads(backend));
      moved.push_back(to.values->writes(backend));
    }
    launch(backend, moving, moved, words, items);
    std::swap(from, to);
  }
  return from;
}

void encode_keys(Backend& backend, const Slice& x, const Slice& keys, bool high) {
  const std::uint32_t local = local_size(backend);
  const KernelText& kernel =
      kernel_for(key_of("encode", static_cast<int>(x.type), high, local), [&] {
        const std::string type(x.type == Type::f64 ? "uint" : glsl_name(x.type));
        return element_text("sort_encode", type.c_str(), "uint", encode_body(x.type, high), local);
      });
  Argument from = x.reads(backend);
  if (x.type == Type::f64) from.element = 4;
  const Argument arguments[] = {std::move(from), keys.writes(backend)};
  const std::uint32_t words[] = {static_cast<std::uint32_t>(x.size)};
  launch(backend, kernel, arguments, words, x.size);
}

void decode_keys(Backend& backend, const Slice& keys, const Slice& output) {
  const std::uint32_t local = local_size(backend);
  const KernelText& kernel =
      kernel_for(key_of("decode", static_cast<int>(output.type), local), [&] {
        std::string body = "  y(i) = x(i);\n";
        if (output.type == Type::i32) body = "  y(i) = int(x(i) ^ 0x80000000u);\n";
        if (output.type == Type::f32)
          body =
              "  uint k = x(i);\n"
              "  y(i) = uintBitsToFloat((k >> 31) != 0u ? k & 0x7fffffffu : ~k);\n";
        const std::string type(glsl_name(output.type));
        return element_text("sort_decode", "uint", type.c_str(), body, local);
      });
  const Argument arguments[] = {keys.reads(backend), output.writes(backend)};
  const std::uint32_t words[] = {static_cast<std::uint32_t>(keys.size)};
  launch(backend, kernel, arguments, words, keys.size);
}

void write_places(Backend& backend, const Slice& output) {
  const std::uint32_t local = local_size(backend);
  const KernelText& kernel = kernel_for(key_of("places", local), [&] {
    return element_text("places", "", "uint", "  y(i) = i;\n", local);
  });
  const Argument arguments[] = {output.writes(backend)};
  const std::uint32_t words[] = {static_cast<std::uint32_t>(output.size)};
  launch(backend, kernel, arguments, words, output.size);
}

}  // namespace topograd::ops
