// Segmented reductions: short segments by invocation, long ones by workgroup and in pieces.
#include <topograd/ops/segments.hpp>

#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ops/kernel_store.hpp>
#include <topograd/ops/reduce_cpu.hpp>
#include <topograd/ops/reduce_device.hpp>

namespace topograd::ops {
namespace {

using codegen::text;

// Elements that lie between multiples of this and in one segment are reduced first, so that no
// workgroup has more than two pieces of a segment to go through.
constexpr std::uint64_t kPiece = 16384;
constexpr std::uint64_t kShort = 64;
// Segments up to this length are left to subgroups, where there are such.
constexpr std::uint64_t kMiddle = 1024;
// Workgroups that keep a large device busy.
constexpr std::uint64_t kGroups = 2048;

/// Reduces states of `count` numbers that `state` names, of v, by a workgroup into
/// shared_states[0].
std::string fold_text(const Monoid& monoid, const char* state, std::uint32_t local) {
  const std::string loop =
      monoid.ordered
          ? text("    uint each = (n + ", local - 1, "u) / ", local,
                 "u;\n    for (uint v = lid * each; v < min(n, (lid + 1u) * each); ++v) ")
          : text("    for (uint v = lid; v < n; v += ", local, "u) ");
  return "    State s = identity();\n" + loop + "s = combine(s, " + state + ");\n" +
         tree_text(local);
}

void add_members(const Monoid& monoid, Access access, KernelParts& parts) {
  for (std::size_t k = 0; k < monoid.members.size(); ++k)
    parts.arguments.push_back({text("p", k), std::string(glsl_name(monoid.members[k])), access});
}

/// Pieces that lie inside of one segment; what is stored of the others is never read.
KernelText piece_text(const FoldForm& form, Type type, std::uint32_t local) {
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
           "  uint first = piece * ", kPiece, "u;\n  uint low = 0u;\n",
           "  uint high = segments;\n  while (high - low > 1u) {\n",
           "    uint middle = (low + high) / 2u;\n    if (at(middle) <= first) {\n",
           "      low = middle;\n    } else {\n      high = middle;\n    }\n  }\n",
           "  bool inside = first + ", kPiece, "u <= count && at(low) <= first && first + ", kPiece,
           "u <= at(low + 1u);\n  if (inside) {\n    uint n = ", kPiece, "u;\n",
           fold_text(monoid, "item(first + v)", local), "    if (lid == 0u) {\n      ",
           store_state(monoid, "piece", "shared_states[0]"), "\n    }\n  }\n");
  return make_kernel(parts);
}

/// Lanes take turns, or neighbouring elements each where order matters; four loads are under way at
/// once.
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

/// What kernels of segments are told apart by, beside what they fold.
struct SegmentKernel {
  Type type, result;
  std::uint32_t local;
  bool subgroups;  ///< that shuffle
};

/// The state of another lane, whatever it is where there is none.
std::string further_function(const Monoid& monoid) {
  std::string members;
  for (std::size_t k = 0; k < monoid.members.size(); ++k)
    members += text(k > 0 ? ", " : "", "subgroupShuffle(s.m", k, ", lane)");
  return text("State further(State s, uint lane) {\n  lane = min(lane, gl_SubgroupSize - 1u);\n",
              "  return State(", members, ");\n}\n");
}

KernelText segment_text(const FoldForm& form, const SegmentKernel& kernel) {
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
           "  return item(to * ", kPiece, "u + v - head - pieces);\n}\n");
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
      kSegments, {{"short", std::to_string(kShort)},
                  {"piece", std::to_string(kPiece)},
                  {"clear", kernel.subgroups ? "  if (lid == 0u) middle_count = 0u;\n" : ""},
                  {"sort", sort},
                  {"subgroups", subgroups},
                  {"own", form.result_of("s")},
                  {"fold", fold_text(monoid, "part(v, begin, from, to, head, pieces)", local)},
                  {"all", form.result_of("shared_states[0]")}});
  return make_kernel(parts);
}

void check_binding(const Backend& backend, const Slice& slice) {
  if (slice.bytes() <= backend.limits().binding_bytes) return;
  throw Error(
      ErrorCode::OutOfDeviceMemory,
      text("segmented_reduce: ", slice.bytes(), " bytes are over the ",
           backend.limits().binding_bytes, " that \"", backend.facts().name, "\" binds at once"));
}

void reduce_segments(Backend& backend, const FoldForm& form, const Slice& x, const Slice& starts,
                     const Slice& output) {
  if (output.size == 0) return;
  check_binding(backend, x);
  check_binding(backend, starts);
  const Monoid& monoid = form.monoid;
  const std::uint32_t local =
      std::min(backend.limits().occupied_by_few ? 64u : 256u, backend.limits().local_size);
  const bool subgroups = backend.limits().subgroup_shuffle && backend.limits().subgroup_size >= 4;
  const ir::Hash128 key =
      key_of("segments", monoid.key.high, monoid.key.low, static_cast<int>(x.type),
             static_cast<int>(output.type), local, subgroups);
  const std::uint64_t pieces = x.size / kPiece;
  std::vector<Argument> arguments = {x.reads(backend), starts.reads(backend)};
  std::vector<Slice> partial;
  for (const Type member : monoid.members)
    partial.push_back(make_slice(member, std::max<std::uint64_t>(pieces, 1), "pieces"));
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(x.size),
                                      static_cast<std::uint32_t>(output.size)};
  if (pieces > 0) {
    ir::Hash128 piece_key = key;
    piece_key.add(1);
    const KernelText& kernel =
        kernel_for(piece_key, [&] { return piece_text(form, x.type, local); });
    for (const Slice& p : partial) arguments.push_back(p.writes(backend));
    std::vector<std::uint32_t> all = words;
    all.insert(all.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = all,
                    .groups = linear_groups(backend, kernel, pieces * local)});
    arguments.resize(2);
  }
  // Short ones share a workgroup; of long ones, there are enough workgroups for a large device.
  const std::uint64_t per_group = x.size / output.size <= kShort
                                      ? local
                                      : std::clamp<std::uint64_t>(output.size / kGroups, 1, local);
  words.push_back(static_cast<std::uint32_t>(per_group));
  words.insert(words.end(), monoid.words.begin(), monoid.words.end());
  const KernelText& kernel = kernel_for(key, [&] {
    return segment_text(form, {x.type, output.type, local, subgroups});
  });
  for (const Slice& p : partial) arguments.push_back(p.reads(backend));
  arguments.push_back(output.writes(backend));
  const std::uint64_t groups = (output.size + per_group - 1) / per_group;
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, groups * local)});
}

/// f(segment, begin, size) for all of them, in parallel.
template <class F>
void for_segments(const Slice& x, const Slice& starts, std::size_t segments, const F& f) {
  const std::uint32_t* const at = starts.read<std::uint32_t>();
  for_blocks(
      segments,
      [&](std::size_t, std::size_t first, std::size_t n) {
        for (std::size_t s = first; s < first + n; ++s) {
          const std::uint64_t begin = std::min<std::uint64_t>(at[s], x.size);
          const std::uint64_t end = std::min<std::uint64_t>(at[s + 1], x.size);
          f(s, begin, end > begin ? end - begin : 0);
        }
      },
      64);
}

template <class T>
void reduce_on_cpu(Reduction reduction, const Slice& x, const Slice& starts, const Slice& output) {
  const T* const from = x.read<T>();
  T* const numbers = finds_place(reduction) ? nullptr : output.write<T>();
  std::uint32_t* const places = finds_place(reduction) ? output.write<std::uint32_t>() : nullptr;
  for_segments(x, starts, output.size, [&](std::size_t s, std::size_t begin, std::size_t n) {
    const Operands<T> operands{from + begin, from + begin, Operand::element};
    if (!orders(reduction)) {
      numbers[s] = reduce_numbers(reduction, operands, n);
      return;
    }
    const bool smallest = reduction == Reduction::min || reduction == Reduction::argmin;
    const Best<T> best = find_best(smallest, operands, n);
    if (places == nullptr) {
      numbers[s] = best.value;
    } else {
      places[s] = n == 0 ? best.place : best.place + static_cast<std::uint32_t>(begin);
    }
  });
}

template <class T>
void fold_on_cpu(const Expression& expression, double identity, const Slice& x, const Slice& starts,
                 const Slice& output) {
  TileFold<T> fold(expression, identity);
  with_type(x.type, [&](auto element) {
    using E = decltype(element);
    const E* const from = x.read<E>();
    E* const to = output.write<E>();
    for_segments(x, starts, output.size, [&](std::size_t s, std::size_t begin, std::size_t n) {
      std::vector<T> numbers(from + begin, from + begin + n);
      to[s] = to_element<E>(fold.reduce(numbers));
    });
  });
}

void check_starts(const Slice& x, const Slice& starts, IndexCheck check) {
  if (starts.type != Type::u32) {
    throw Error(ErrorCode::InvalidArgument,
                text("segmented_reduce: expected starts of type u32, got ", name(starts.type)));
  }
  if (check == IndexCheck::none) return;
  const std::uint32_t* const at = starts.read<std::uint32_t>();
  std::uint32_t least = 0;
  for (std::uint64_t k = 0; k < starts.size; least = at[k++]) {
    if (at[k] >= least && at[k] <= x.size) continue;
    throw Error(ErrorCode::InvalidArgument, text("segmented_reduce: start ", k, " is ", at[k],
                                                 ", expected between ", least, " and ", x.size));
  }
}

}  // namespace

ExecutionStats segmented_reduce_into(const SegmentReduction& what, const Slice& x,
                                     const Slice& starts, const Slice& output, IndexCheck check,
                                     const OpOptions& options) {
  if (starts.size == 0)
    throw Error(ErrorCode::Shape, "segmented_reduce: expected at least one start, got none");
  expect_size("segmented_reduce", starts.size - 1, output.size);
  check_starts(x, starts, check);
  const bool places = what.fold == nullptr && finds_place(what.reduction);
  if (output.type != (places ? Type::u32 : x.type)) {
    throw Error(ErrorCode::InvalidArgument,
                text("segmented_reduce: expected results of type ",
                     name(places ? Type::u32 : x.type), ", got ", name(output.type)));
  }
  const bool wide = what.fold != nullptr ? x.type != Type::f32 : x.type == Type::f64;
  const FoldForm form = what.fold != nullptr
                            ? form_of(*what.fold, what.identity, x.type, most_words(4) - 3)
                            : form_of(what.reduction, x.type);
  const std::shared_ptr<Storage> in[] = {x.storage, starts.storage}, out[] = {output.storage};
  const auto on_cpu = [&] {
    if (what.fold == nullptr) {
      with_type(x.type, [&](auto element) {
        reduce_on_cpu<decltype(element)>(what.reduction, x, starts, output);
      });
    } else if (wide) {
      fold_on_cpu<double>(*what.fold, what.identity, x, starts, output);
    } else {
      fold_on_cpu<float>(*what.fold, what.identity, x, starts, output);
    }
  };
  const OpCall call{
      .op = Op::Segments,
      .kernel =
          key_of("segments", form.monoid.key.high, form.monoid.key.low, static_cast<int>(x.type)),
      .size = x.size,
      .features = {.bytes = static_cast<double>(size_of(x.type)),
                   .pattern = runtime::hybrid::MemoryPattern::reduction},
      .inputs = in,
      .outputs = out,
      .on_cpu = on_cpu,
      .on_device = [&](Backend& backend) { reduce_segments(backend, form, x, starts, output); },
      .needs_float64 = wide};
  return run(call, options);
}

}  // namespace topograd::ops
