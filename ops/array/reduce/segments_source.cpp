// Source of segmented reductions.
#include "segments_source.hpp"

#include "../../../codegen/glsl/text.hpp"

namespace topograd::ops {
namespace {

using codegen::text;

// Segments up to this length are reduced by subgroups if available.
constexpr std::uint64_t kMiddle = 1024;
/// Source that reduces states of `count` numbers v, given by the expression `state`, by a workgroup
/// into shared_states[0].
std::string fold_source(const Monoid& monoid, const char* state, std::uint32_t local) {
  const std::string loop =
      monoid.ordered
          ? text("    uint each = (n + ", local - 1, "u) / ", local,
                 "u;\n    for (uint v = lid * each; v < min(n, (lid + 1u) * each); ++v) ")
          : text("    for (uint v = lid; v < n; v += ", local, "u) ");
  return "    State s = identity();\n" + loop + "s = combine(s, " + state + ");\n" +
         tree_source(local);
}

/// Lanes take elements in turn, or neighbouring ones if order matters; four loads at once.
constexpr std::string_view kLaneTurns =
    R"(    for (uint i = begin + lane; i < end; i += 4u * lanes) {
      State s0 = item(i);
      State s1 = item(min(i + lanes, end - 1u));
      State s2 = item(min(i + 2u * lanes, end - 1u));
      State s3 = item(min(i + 3u * lanes, end - 1u));
      s = combine(s, s0);
      if (i + lanes < end) s = combine(s, s1);
      if (i + 2u * lanes < end) s = combine(s, s2);
      if (i + 3u * lanes < end) s = combine(s, s3);
    }
)";
constexpr std::string_view kLaneNeighbours = R"(    uint each = (end - begin + lanes - 1u) / lanes;
    uint from = begin + lane * each;
    for (uint i = from; i < min(end, from + each); ++i) s = combine(s, item(i));
)";
constexpr std::string_view kSubgroups =
    R"(  uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
  for (uint k = gl_SubgroupID; k < middle_count; k += gl_NumSubgroups) {
    uint segment = middle_segments[k];
    uint begin = at(segment);
    uint end = min(at(segment + 1u), count);
    State s = identity();
{turns}    for (uint width = 1u; width < lanes; width *= 2u) s = combine(s, further(s, lane + width));
    if (lane == 0u) y(segment) = {own};
  }
)";

constexpr std::string_view kSegments = R"(  uint lid = gl_LocalInvocationID.x;
  if (lid == 0u) long_count = 0u;
{clear}  barrier();
  uint own = linear_group() * per_group + lid;
  if (lid < per_group && own < segments) {
    uint begin = min(at(own), count);
    uint end = min(at(own + 1u), count);
    if (end <= begin + {short}u) {
      State s = identity();
      for (uint i = begin; i < end; ++i) s = combine(s, item(i));
      y(own) = {own};
{sort}    } else {
      long_segments[atomicAdd(long_count, 1u)] = own;
    }
  }
  barrier();
{subgroups}  uint longs = long_count;
  for (uint k = 0u; k < longs; ++k) {
    uint segment = long_segments[k];
    uint begin = at(segment);
    uint end = min(at(segment + 1u), count);
    uint from = (begin + {piece}u - 1u) / {piece}u;
    uint to = end / {piece}u;
    uint head = end - begin;
    uint pieces = 0u;
    uint n = head;
    if (from < to) {
      head = from * {piece}u - begin;
      pieces = to - from;
      n = head + pieces + (end - to * {piece}u);
    }
{fold}    if (lid == 0u) y(segment) = {all};
  }
)";

/// Source of the state of another lane; undefined if there is no such lane.
std::string further_function(const Monoid& monoid) {
  std::string members;
  for (std::size_t k = 0; k < monoid.members.size(); ++k)
    members += text(k > 0 ? ", " : "", "subgroupShuffle(s.m", k, ", lane)");
  return text("State further(State s, uint lane) {\n  lane = min(lane, gl_SubgroupSize - 1u);\n",
              "  return State(", members, ");\n}\n");
}

}  // namespace

ComputeKernel piece_source(const FoldForm& form, Type type, std::uint32_t local) {
  const Monoid& monoid = form.monoid;
  KernelParts parts{.name = "segment_pieces",
                    .local_size = {local, 1, 1},
                    .arguments = {{"x0", std::string(glsl_name(type)), Access::read},
                                  {"at", "uint", Access::read}},
                    .words = {"count", "segments"}};
  add_members(monoid, Access::write, parts);
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  parts.functions =
      monoid.functions + text("shared State shared_states[", local, "];\n") + form.item_function();
  parts.body =
      text("  uint lid = gl_LocalInvocationID.x;\n  uint piece = linear_group();\n",
           "  uint first = piece * ", SegmentKernel::kPiece, "u;\n  uint low = 0u;\n",
           "  uint high = segments;\n  while (high - low > 1u) {\n",
           "    uint middle = (low + high) / 2u;\n    if (at(middle) <= first) {\n",
           "      low = middle;\n    } else {\n      high = middle;\n    }\n  }\n",
           "  bool inside = first + ", SegmentKernel::kPiece,
           "u <= count && at(low) <= first && first + ", SegmentKernel::kPiece,
           "u <= at(low + 1u);\n  if (inside) {\n    uint n = ", SegmentKernel::kPiece, "u;\n",
           fold_source(monoid, "item(first + v)", local), "    if (lid == 0u) {\n      ",
           store_state(monoid, "piece", "shared_states[0]"), "\n    }\n  }\n");
  return make_kernel(parts);
}

ComputeKernel segment_source(const FoldForm& form, const SegmentKernel& kernel) {
  const Monoid& monoid = form.monoid;
  const std::uint32_t local = kernel.local;
  KernelParts parts{.name = "segmented_reduce",
                    .local_size = {local, 1, 1},
                    .arguments = {{"x0", std::string(glsl_name(kernel.type)), Access::read},
                                  {"at", "uint", Access::read}},
                    .words = {"count", "segments", "per_group"}};
  add_members(monoid, Access::read, parts);
  parts.arguments.push_back({"y", std::string(glsl_name(kernel.result)), Access::write});
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  parts.functions =
      monoid.functions + form.functions + form.item_function() +
      text("shared State shared_states[", local, "];\nshared uint long_segments[", local,
           "];\nshared uint long_count;\n\n// Elements, whole pieces, elements.\n",
           "State part(uint v, uint begin, uint from, uint to, uint head, uint pieces) {\n",
           "  if (v < head) return item(begin + v);\n  uint q = from + v - head;\n",
           "  if (v < head + pieces) return ", load_state(monoid, "q"), ";\n",
           "  return item(to * ", SegmentKernel::kPiece, "u + v - head - pieces);\n}\n");
  std::string subgroups, sort;
  if (kernel.subgroups) {
    parts.extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle"};
    parts.functions += text("shared uint middle_segments[", local,
                            "];\nshared uint middle_count;\n", further_function(monoid));
    sort = text("    } else if (end <= begin + ", kMiddle,
                "u) {\n      middle_segments[atomicAdd(middle_count, 1u)] = own;\n");
    subgroups = codegen::substitute(
        kSubgroups, {{"turns", std::string(monoid.ordered ? kLaneNeighbours : kLaneTurns)},
                     {"own", form.result_of("s")}});
  }
  parts.body = codegen::substitute(
      kSegments, {{"short", std::to_string(SegmentKernel::kShort)},
                  {"piece", std::to_string(SegmentKernel::kPiece)},
                  {"clear", kernel.subgroups ? "  if (lid == 0u) middle_count = 0u;\n" : ""},
                  {"sort", sort},
                  {"subgroups", subgroups},
                  {"own", form.result_of("s")},
                  {"fold", fold_source(monoid, "part(v, begin, from, to, head, pieces)", local)},
                  {"all", form.result_of("shared_states[0]")}});
  return make_kernel(parts);
}

}  // namespace topograd::ops
