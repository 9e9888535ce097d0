// Segmented reductions: short segments by invocation, long ones by workgroup and in pieces.
#include "segments.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "reduce_cpu.hpp"
#include "reduce_device.hpp"
#include "segments_source.hpp"

namespace topograd::ops {
namespace {

using codegen::text;

// Number of workgroups that keeps a large device busy.
constexpr std::uint64_t kSegmentGroups = 2048;

void check_binding(const OpBackend& backend, const Slice& slice) {
  if (slice.bytes() <= backend.limits().binding_bytes) return;
  throw Error(
      ErrorCode::OutOfDeviceMemory,
      text("segmented_reduce: ", slice.bytes(), " bytes are over the ",
           backend.limits().binding_bytes, " that \"", backend.facts().name, "\" binds at once"));
}

void reduce_segments(OpBackend& backend, const FoldForm& form, const Slice& x, const Slice& starts,
                     const Slice& output) {
  if (output.size == 0) return;
  check_binding(backend, x);
  check_binding(backend, starts);
  const Monoid& monoid = form.monoid;
  const std::uint32_t local =
      std::min(backend.limits().occupied_by_few ? 64u : 256u, backend.limits().local_size);
  const bool subgroups = backend.limits().subgroup_shuffle && backend.limits().subgroup_size >= 4;
  const ir::Hash128 key =
      key_of("segments", monoid.key.high, monoid.key.low, x.type, output.type, local, subgroups);
  const std::uint64_t pieces = x.size / SegmentKernel::kPiece;
  std::vector<Argument> arguments = {x.reads(backend), starts.reads(backend)};
  std::vector<Slice> partial;
  for (const Type member : monoid.members)
    partial.push_back(make_slice(member, std::max<std::uint64_t>(pieces, 1), "pieces"));
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(x.size),
                                      static_cast<std::uint32_t>(output.size)};
  if (pieces > 0) {
    ir::Hash128 piece_key = key;
    piece_key.add(1);
    const ComputeKernel& kernel =
        kernel_for(piece_key, [&] { return piece_source(form, x.type, local); });
    for (const Slice& p : partial) arguments.push_back(p.writes(backend));
    std::vector<std::uint32_t> all = words;
    all.insert(all.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = all,
                    .groups = linear_groups(backend, kernel, pieces * local)});
    arguments.resize(2);
  }
  // Short segments share a workgroup; long ones have enough workgroups for a large device.
  const std::uint64_t per_group =
      x.size / output.size <= SegmentKernel::kShort
          ? local
          : std::clamp<std::uint64_t>(output.size / kSegmentGroups, 1, local);
  words.push_back(static_cast<std::uint32_t>(per_group));
  words.insert(words.end(), monoid.words.begin(), monoid.words.end());
  const ComputeKernel& kernel = kernel_for(key, [&] {
    return segment_source(form, {x.type, output.type, local, subgroups});
  });
  for (const Slice& p : partial) arguments.push_back(p.reads(backend));
  arguments.push_back(output.writes(backend));
  const std::uint64_t groups = (output.size + per_group - 1) / per_group;
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, groups * local)});
}

/// Calls f(segment, begin, size) for all segments, in parallel.
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
    const ReductionInputs<T> operands{from + begin, from + begin, Operand::element};
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
  expect_type("segmented_reduce", "starts", Type::u32, starts.type);
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
  expect_type("segmented_reduce", "results", places ? Type::u32 : x.type, output.type);
  const bool wide = what.fold != nullptr ? x.type != Type::f32 : x.type == Type::f64;
  const FoldForm form = what.fold != nullptr
                            ? form_of(*what.fold, what.identity, x.type, most_words(4) - 3)
                            : form_of(what.reduction, x.type);
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
      .op = Operation::Segments,
      .kernel = key_of("segments", form.monoid.key.high, form.monoid.key.low, x.type),
      .size = x.size,
      .work = {.operations = (what.fold != nullptr ? what.fold->operations() : 1) *
                             static_cast<double>(x.size),
               .bytes_read = x.bytes() + starts.bytes(),
               .bytes_written = output.bytes(),
               .steps = runtime::hybrid::tree_steps(
                   static_cast<double>(x.size) /
                   static_cast<double>(std::max<std::uint64_t>(output.size, 1))),
               .pattern = runtime::hybrid::MemoryPattern::reduction},
      .inputs = {x.storage, starts.storage},
      .outputs = {output.storage},
      .on_cpu = on_cpu,
      .on_device = [&](OpBackend& backend) { reduce_segments(backend, form, x, starts, output); },
      .needs_float64 = wide};
  return run(call, options);
}

}  // namespace topograd::ops
