// Scans in one pass by decoupled look-back (Merrill and Garland, NVR-2016-002).
#include "scan_ahead.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"

#include <algorithm>

namespace topograd::ops {
namespace {

using codegen::Lines;
using codegen::substitute;
using codegen::text;

/// States that workgroups exchange: each word is stored as two halves with a flag, so that it is
/// complete when both have the flag. Element 0 hands out numbers.
constexpr std::string_view kExchange = R"(
uvec2 halves(uint word) { return uvec2(0x10000u | (word & 0xffffu), 0x10000u | (word >> 16)); }
uint wait_for_word(uint k) {
  uvec2 w;
  do {
    w = states(k);
  } while ((w.x & w.y & 0x10000u) == 0u);
  return (w.x & 0xffffu) | (w.y << 16);
}
void publish(uint index, State s) {
  uint k = 1u + index * {N}u;
{publish}}
State wait_for(uint index) {
  uint k = 1u + index * {N}u;
  return State({words});
}
State from_lane(State s, uint lane) { return State({shuffle}); }

// Combines the states of the lanes up to this one.
State scanned(State s) {
  uint lane = gl_SubgroupInvocationID;
  for (uint width = 1u; width < {S}u; width *= 2u) {
    State before = from_lane(s, lane - min(lane, width));
    if (lane >= width) s = combine(before, s);
  }
  return s;
}
State folded(State s) {
  uint lane = gl_SubgroupInvocationID;
  for (uint width = 1u; width < {S}u; width *= 2u)
    s = combine(s, from_lane(s, min(lane + width, {S}u - 1u)));
  return from_lane(s, 0u);
}

shared State folds[{W}];
shared State totals[{W}];
shared State state_before;
shared uint number_of_group;
)";

/// Publishes the aggregate of tile t and looks back for the prefix of tile u, once for a workgroup.
constexpr std::string_view kLookBack = R"(  State parts = identity();
  if (lane < {W}u) parts = totals[lane];
  parts = scanned(parts);
  State mine = from_lane(parts, max(subgroup, 1u) - 1u), whole = from_lane(parts, {W}u - 1u);
  uint supers = tiles + tiles / {S}u + 1u;
  if (subgroup == 0u && t < tiles) {
    State tile = identity();
    if (lane < {W}u) tile = folds[lane];
    tile = folded(tile);
    if (lane == 0u) publish(t, tile);
  }
  // All tiles of a block, and all blocks before a number of them, are published by later tiles.
  uint last = t - ahead / 3u;
  if (subgroup == 1u && t >= ahead / 3u && last < tiles && last % {S}u == {S}u - 1u) {
    State block = folded(wait_for(last - ({S}u - 1u) + lane));
    if (lane == 0u) publish(tiles + last / {S}u, block);
  }
  last = t - 2u * (ahead / 3u);
  if (subgroup == 2u && t >= 2u * (ahead / 3u) && last < tiles &&
      last % ({S}u * {S}u) == {S}u * {S}u - 1u) {
    uint super = last / ({S}u * {S}u);
    State sum = folded(wait_for(tiles + super * {S}u + lane));
    if (super > 0u) sum = combine(wait_for(supers + super), sum);
    if (lane == 0u) publish(supers + super + 1u, sum);
  }
  if (subgroup == 0u && t >= ahead) {
    uint block = u / {S}u, super = block / {S}u;
    State near = identity(), far = identity();
    if (lane < u % {S}u) near = wait_for(block * {S}u + lane);
    if (lane < block % {S}u) far = wait_for(tiles + super * {S}u + lane);
    State sum = combine(folded(far), folded(near));
    if (super > 0u) sum = combine(wait_for(supers + super), sum);
    if (lane == 0u) {
      state_before = sum;
      // The sum of all, for what is left beyond the last vector.
      if (u == tiles - 1u) publish(supers + tiles / ({S}u * {S}u) + 1u, combine(sum, whole));
    }
  }
  barrier();
  if (t < ahead) return;
  State before = state_before;
  if (subgroup > 0u) before = combine(before, mine);
)";

std::string_view vector_name(Type type) {
  switch (type) {
    case Type::i32: return "ivec4";
    case Type::u32: return "uvec4";
    case Type::f64: return "dvec2";
    case Type::f32:
    case Type::f16: break;
  }
  return "vec4";
}

/// Functions that split a state into halves and join them.
std::string exchange_functions(const Monoid& monoid, const AheadKernel& kernel) {
  std::string publish, words, shuffle;
  std::uint32_t k = 0;
  const auto word = [&] { return text("wait_for_word(k + ", k++, "u)"); };
  const auto put = [&](const std::string& bits) {
    publish += text("  states(k + ", k, "u) = halves(", bits, ");\n");
  };
  for (std::size_t m = 0; m < monoid.members.size(); ++m) {
    const std::string member = text("s.m", m);
    if (m > 0) words += ", ", shuffle += ", ";
    shuffle += text("subgroupShuffle(", member, ", lane)");
    switch (monoid.members[m]) {
      case Type::f64:
        put(text("unpackDouble2x32(", member, ").x"));
        words += text("packDouble2x32(uvec2(", word(), ", ");
        put(text("unpackDouble2x32(", member, ").y"));
        words += text(word(), "))");
        break;
      case Type::u32:
        put(member);
        words += word();
        break;
      case Type::i32:
        put(text("uint(", member, ")"));
        words += text("int(", word(), ")");
        break;
      case Type::f32:
      case Type::f16:
        put(text("floatBitsToUint(", member, ")"));
        words += text("uintBitsToFloat(", word(), ")");
        break;
    }
  }
  return substitute(kExchange, {{"N", std::to_string(state_words(monoid))},
                                {"S", std::to_string(kernel.subgroup)},
                                {"W", std::to_string(kernel.subgroups())},
                                {"publish", publish},
                                {"words", words},
                                {"shuffle", shuffle}});
}

/// The state of one element.
std::string element_function(const FoldForm& form, Type type) {
  std::string statements = form.item.statements;
  for (std::size_t at; (at = statements.find("x0(i)")) != statements.npos;)
    statements.replace(at, 5, "element");
  return text("State state_of(", glsl_name(type), " element) {\n", statements, "  return ",
              form.monoid.from_element, ";\n}\n");
}

class Writer {
 public:
  Writer(const FoldForm& form, const AheadKernel& kernel) : form_(form), kernel_(kernel) {}

  ComputeKernel write() {
    const std::string vector(vector_name(kernel_.type));
    KernelParts parts{
        .name = text("scan_ahead_", name(kernel_.type)),
        .local_size = {kernel_.local, 1, 1},
        .arguments = {{"x0", vector, Access::read},
                      {"states", "uvec2", Access::exchange},
                      {"y", vector, Access::write}},
        .words = {"count", "tiles", "ahead", "exclusive"},
        .extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"}};
    const Monoid& monoid = form_.monoid;
    parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
    parts.functions = monoid.functions + form_.functions + exchange_functions(monoid, kernel_) +
                      element_function(form_, kernel_.type);
    begin();
    read("next", "t");
    read("own", "u");
    fold_next();
    scan_own();
    out_.line("barrier();");
    parts.body = out_.text() + substitute(kLookBack, {{"S", std::to_string(kernel_.subgroup)},
                                                      {"W", std::to_string(kernel_.subgroups())}});
    out_ = Lines(1);
    store();
    parts.body += out_.text();
    return make_kernel(parts);
  }

 private:
  static constexpr std::string_view kMembers = "xyzw";

  void begin() {
    out_.line("uint lane = gl_SubgroupInvocationID, subgroup = gl_SubgroupID;");
    out_.line("if (gl_LocalInvocationID.x == 0u) number_of_group = atomicAdd(states(0).x, 1u);");
    out_.line("barrier();");
    out_.line("uint t = number_of_group, u = t - ahead;");
  }

  /// Reads vectors `name`_0, ... of a tile, 0 beyond the end.
  void read(std::string_view name, std::string_view tile) {
    const std::string_view type = vector_name(kernel_.type);
    out_.line("uint ", name, " = ", tile, " * ", kernel_.tile(), "u + subgroup * ",
              kernel_.subgroup * AheadKernel::kRows, "u + lane;");
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r)
      out_.line(type, " ", name, "_", r, " = ", type, "(0);");
    out_.open("if (", tile, " < tiles && (", tile, " + 1u) * ", kernel_.tile(), "u <= count)");
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r)
      out_.line(name, "_", r, " = x0(", row(name, r), ");");
    out_.close();
    out_.open("else if (", tile, " < tiles)");
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r)
      out_.line("if (", row(name, r), " < count) ", name, "_", r, " = x0(", row(name, r), ");");
    out_.close();
  }
  std::string row(std::string_view name, std::uint32_t r) const {
    return text(name, " + ", r * kernel_.subgroup, "u");
  }

  /// States of a row's elements, each combined with those before it in its vector.
  void states(std::string_view name, std::uint32_t r) {
    for (std::uint32_t c = 0; c < kernel_.width(); ++c)
      out_.line("State ", name, "_", r, "_", c, " = identity();");
    out_.open("if (", row(name, r), " < count)");
    for (std::uint32_t c = 0; c < kernel_.width(); ++c) {
      const std::string state = text("state_of(", name, "_", r, ".", kMembers.substr(c, 1), ")");
      out_.line(name, "_", r, "_", c, " = ",
                c == 0 ? state : text("combine(", name, "_", r, "_", c - 1, ", ", state, ")"), ";");
    }
    out_.close();
  }
  std::string last(std::string_view name, std::uint32_t r) const {
    return text(name, "_", r, "_", kernel_.width() - 1);
  }

  void fold_next() {
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r) states("next", r);
    // Rows of a subgroup are consecutive; if order does not matter, lanes fold theirs first.
    const bool ordered = form_.monoid.ordered;
    const auto part = [&](std::uint32_t r) {
      return ordered ? text("folded(", last("next", r), ")") : last("next", r);
    };
    out_.line("State fold = ", part(0), ";");
    for (std::uint32_t r = 1; r < AheadKernel::kRows; ++r)
      out_.line("fold = combine(fold, ", part(r), ");");
    if (!ordered) out_.line("fold = folded(fold);");
    out_.line("if (lane == 0u) folds[subgroup] = fold;");
  }

  /// Computes the prefix of each row's vector within the subgroup, and the subgroup's total.
  void scan_own() {
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r) {
      states("own", r);
      out_.line("State scan_", r, " = scanned(", last("own", r), ");");
      out_.line("State row_", r, " = from_lane(scan_", r, ", max(lane, 1u) - 1u);");
      out_.line("if (lane == 0u) row_", r, " = identity();");
    }
    out_.line("State run = from_lane(scan_0, ", kernel_.subgroup - 1, "u);");
    for (std::uint32_t r = 1; r < AheadKernel::kRows; ++r) {
      out_.line("row_", r, " = combine(run, row_", r, ");");
      out_.line("run = combine(run, from_lane(scan_", r, ", ", kernel_.subgroup - 1, "u));");
    }
    out_.line("if (lane == 0u) totals[subgroup] = run;");
  }

  void store() {
    out_.open("if ((u + 1u) * ", kernel_.tile(), "u <= count)");
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r) store_row(r);
    out_.close();
    out_.open("else");
    for (std::uint32_t r = 0; r < AheadKernel::kRows; ++r) {
      out_.open("if (", row("own", r), " < count)");
      store_row(r);
      out_.close();
    }
    out_.close();
  }
  void store_row(std::uint32_t r) {
    const std::string_view type = vector_name(kernel_.type);
    const auto value = [&](std::uint32_t c) { return form_.result_of(text("z", c)); };
    out_.line("{");
    out_.line("State start = combine(before, row_", r, ");");
    for (std::uint32_t c = 0; c < kernel_.width(); ++c) {
      const std::string at = text("own_", r, "_", c);
      const std::string earlier =
          c == 0 ? "start" : text("combine(start, own_", r, "_", c - 1, ")");
      out_.line("State z", c, " = combine(start, ", at, ");");
      out_.line("if (exclusive != 0u) z", c, " = ", earlier, ";");
    }
    std::string members = value(0);
    for (std::uint32_t c = 1; c < kernel_.width(); ++c) members += ", " + value(c);
    out_.line("y(", row("own", r), ") = ", type, "(", members, ");");
    out_.line("}");
  }

  const FoldForm& form_;
  const AheadKernel& kernel_;
  Lines out_{1};
};

}  // namespace

std::uint32_t state_words(const Monoid& monoid) {
  std::uint32_t words = 0;
  for (const Type member : monoid.members) words += static_cast<std::uint32_t>(size_of(member)) / 4;
  return words;
}

ComputeKernel ahead_source(const FoldForm& form, const AheadKernel& kernel) {
  return Writer(form, kernel).write();
}

ComputeKernel rest_source(const FoldForm& form, const AheadKernel& kernel) {
  const std::string t(glsl_name(kernel.type));
  KernelParts parts{
      .name = "scan_rest",
      .local_size = {kernel.subgroup, 1, 1},
      .arguments = {{"x0", t, Access::read},
                    {"states", "uvec2", Access::exchange},
                    {"y", t, Access::write}},
      .words = {"count", "index", "exclusive"},
      .extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"}};
  const Monoid& monoid = form.monoid;
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  parts.functions = monoid.functions + form.functions + exchange_functions(monoid, kernel) +
                    element_function(form, kernel.type);
  parts.body = text("  if (gl_LocalInvocationID.x != 0u) return;\n  State s = wait_for(index);\n",
                    "  for (uint i = 0u; i < count; ++i) {\n",
                    "    State next = combine(s, state_of(x0(i)));\n",
                    "    if (exclusive == 0u) s = next;\n    y(i) = ", form.result_of("s"),
                    ";\n    s = next;\n  }\n");
  return make_kernel(parts);
}

namespace {

// Tiles of 16 KiB between reducing and scanning: more than run concurrently, but less than fill a
// cache. The best of 200 to 1,600 on an H200, where 10^8 elements of f32 take 249 us.
constexpr std::uint32_t kAhead = 400;
// Two launches are faster for fewer bytes.
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20;

}  // namespace

bool scans_ahead(const OpBackend& backend, const FoldForm& form, const Slice& x,
                 const Slice& output) {
  const LaunchLimits& limits = backend.limits();
  const std::uint64_t all = x.size * state_words(form.monoid);
  return limits.groups_progress && limits.subgroup_shuffle && limits.subgroup_size >= 16 &&
         limits.local_size >= 256 && x.bytes() >= kLeastBytes &&
         x.bytes() <= limits.binding_bytes && all < (std::uint64_t{1} << 31) &&
         x.byte_offset() % 16 == 0 && output.byte_offset() % 16 == 0;
}

void scan_ahead(OpBackend& backend, const FoldForm& form, const Slice& x, const Slice& output,
                bool exclusive) {
  const Monoid& monoid = form.monoid;
  const std::uint32_t lanes = backend.limits().subgroup_size;
  const AheadKernel kernel{x.type, std::min(256u, lanes * std::min(lanes, 8u)), lanes};
  const auto key = [&](const char* what) {
    return key_of(what, monoid.key.high, monoid.key.low, x.type, kernel.local, kernel.subgroup);
  };
  const std::uint64_t vectors = x.size / kernel.width(), rest = x.size % kernel.width();
  const std::uint32_t tiles = word((vectors + kernel.tile() - 1) / kernel.tile());
  const std::uint32_t total = tiles + tiles / lanes + 1 + tiles / (lanes * lanes) + 1;
  const Slice memory = make_slice(Type::u32, 2 + 2ull * (total + 1) * state_words(monoid), "sums");
  Argument states = memory.writes(backend);
  states.element = 8;
  backend.fill(states.memory, states.offset, states.bytes, 0);
  states.access = Access::read_write;
  const auto in_vectors = [](Argument argument) {
    argument.element = 16;
    return argument;
  };
  const auto launch = [&](const ComputeKernel& text, std::span<const Argument> arguments,
                          std::vector<std::uint32_t> words, const LaunchGroups& groups) {
    words.insert(words.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &text, .arguments = arguments, .words = words, .groups = groups});
  };
  if (vectors > 0) {
    const std::uint64_t elements = vectors * kernel.width();
    const Argument arguments[] = {in_vectors(x.reads(backend, 0, elements)), states,
                                  in_vectors(output.writes(backend, 0, elements, rest > 0))};
    const ComputeKernel& text =
        kernel_for(key("scan_ahead"), [&] { return ahead_source(form, kernel); });
    launch(text, arguments, {word(vectors), tiles, kAhead, exclusive ? 1u : 0u}, {tiles + kAhead});
  }
  if (rest > 0) {
    const std::uint64_t first = vectors * kernel.width();
    const Argument arguments[] = {x.reads(backend, first, rest), states,
                                  output.writes(backend, first, rest, true)};
    const ComputeKernel& text =
        kernel_for(key("scan_rest"), [&] { return rest_source(form, kernel); });
    launch(text, arguments, {word(rest), total, exclusive ? 1u : 0u}, {});
  }
}

}  // namespace topograd::ops
