// Reductions on devices: one pass over the inputs, and a final one over the workgroups' results.
#include "reduce_device.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"

#include <algorithm>

namespace topograd::ops {
namespace {

using codegen::text;

// Enough workgroups to fill a large device several times; software devices run few threads.
constexpr std::uint64_t kGroups = 1056, kSoftwareGroups = 16;

std::uint32_t local_size(const OpBackend& backend) {
  const std::uint32_t wanted = backend.limits().occupied_by_few ? 64 : 256;
  return std::min(wanted, backend.limits().local_size);
}

// Concurrent loads per invocation.
constexpr std::uint32_t kLoads = 8;

std::string first_body(const Monoid& monoid, std::uint32_t local) {
  if (monoid.ordered) {
    return text(
        "  uint begin = linear_group() * per_group;\n",
        "  uint end = min(count, begin + per_group);\n  State s = identity();\n",
        "  uint each = (per_group + ", local - 1, "u) / ", local, "u;\n",
        "  begin += gl_LocalInvocationID.x * each;\n",
        "  for (uint i = begin; i < min(end, begin + each); ++i) s = combine(s, item(i));\n");
  }
  std::string loads, folds;
  for (std::uint32_t k = 0; k < kLoads; ++k)
    loads += text("    State s", k, " = item(i + ", k * local, "u);\n");
  for (std::uint32_t width = 1; width < kLoads; width *= 2) {
    for (std::uint32_t k = 0; k < kLoads; k += 2 * width)
      folds += text("    s", k, " = combine(s", k, ", s", k + width, ");\n");
  }
  return text("  uint begin = linear_group() * per_group;\n",
              "  uint end = min(count, begin + per_group);\n  State s = identity();\n",
              "  uint i = begin + gl_LocalInvocationID.x;\n  for (; i + ", (kLoads - 1) * local,
              "u < end; i += ", kLoads * local, "u) {\n", loads, folds,
              "    s = combine(s, s0);\n  }\n", "  for (; i < end; i += ", local,
              "u) s = combine(s, item(i));\n");
}

ComputeKernel first_source(const Monoid& monoid, const ReductionItem& item,
                           std::span<const Slice> inputs, std::uint32_t local) {
  KernelParts parts{
      .name = "reduce_first", .local_size = {local, 1, 1}, .words = {"count", "per_group", "base"}};
  for (std::size_t k = 0; k < inputs.size(); ++k)
    parts.arguments.push_back({text("x", k), std::string(glsl_name(inputs[k].type)), Access::read});
  add_members(monoid, Access::write, parts);
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  parts.functions =
      monoid.functions + item.functions +
      text("shared State shared_states[", local, "];\n\nState item(uint i) {\n", item.statements,
           "  uint place = base + i;\n  return ", monoid.from_element, ";\n}\n");
  parts.body = first_body(monoid, local) + tree_source(local) +
               "  if (gl_LocalInvocationID.x == 0u) {\n    " +
               store_state(monoid, "linear_group()", "shared_states[0]") + "\n  }\n";
  return make_kernel(parts);
}

ComputeKernel last_source(const Monoid& monoid, Type type, const std::string& finish,
                          std::uint32_t local, std::string_view functions) {
  KernelParts parts{
      .name = "reduce_last", .local_size = {local, 1, 1}, .words = {"count", "per_group"}};
  add_members(monoid, Access::read, parts);
  parts.arguments.push_back({"y", std::string(glsl_name(type)), Access::write});
  parts.words.insert(parts.words.end(), monoid.word_names.begin(), monoid.word_names.end());
  parts.functions = monoid.functions + std::string(functions) +
                    text("shared State shared_states[", local, "];\n\nState item(uint i) { return ",
                         load_state(monoid, "i"), "; }\n");
  parts.body = first_body(monoid, local) + tree_source(local) +
               "  if (gl_LocalInvocationID.x == 0u) {\n    s = shared_states[0];\n    y(0) = " +
               codegen::substitute(finish, {{"0", monoid.result}}) + ";\n  }\n";
  return make_kernel(parts);
}

}  // namespace

Shares share_out(const OpBackend& backend, std::uint64_t count, std::size_t widest,
                 std::uint32_t tile, std::uint32_t steps) {
  Shares out{.local = local_size(backend)};
  out.chunk = std::min<std::uint64_t>(backend.limits().binding_bytes / widest, 1u << 30);
  const std::uint64_t whole = std::uint64_t{tile} * out.local;
  const std::uint64_t most = backend.limits().occupied_by_few ? kSoftwareGroups : kGroups;
  const std::uint64_t turns = std::min(backend.limits().loop_iterations, 1u << 24) / steps;
  const std::uint64_t wanted = (std::min(count, out.chunk) + most - 1) / most;
  const std::uint64_t largest = turns / tile * whole;
  out.per_group = std::clamp((wanted + whole - 1) / whole * whole, whole, largest);
  out.chunk = out.chunk / out.per_group * out.per_group;
  out.groups = (count + out.per_group - 1) / out.per_group;
  return out;
}

std::vector<Slice> reduce_shares(OpBackend& backend, const Monoid& monoid,
                                 const ReductionItem& item, std::span<const Slice> inputs,
                                 const Shares& shares) {
  ir::Hash128 key = key_of("reduce_first", monoid.key.high, monoid.key.low, item.key.high,
                           item.key.low, shares.local);
  for (const Slice& input : inputs) key.add(static_cast<std::uint64_t>(input.type));
  const ComputeKernel& first =
      kernel_for(key, [&] { return first_source(monoid, item, inputs, shares.local); });
  std::vector<Slice> partial;
  for (const Type member : monoid.members)
    partial.push_back(
        make_slice(member, std::max<std::uint64_t>(shares.groups, 1), "partial states"));
  const std::uint64_t count = inputs[0].size;
  for (std::uint64_t begin = 0; begin < count; begin += shares.chunk) {
    const std::uint64_t items = std::min(shares.chunk, count - begin);
    const std::uint64_t groups = (items + shares.per_group - 1) / shares.per_group;
    const std::uint64_t written = begin / shares.per_group;
    std::vector<Argument> arguments;
    for (const Slice& input : inputs) arguments.push_back(input.reads(backend, begin, items));
    for (const Slice& p : partial)
      arguments.push_back(p.writes(backend, written, groups, written > 0));
    std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(items),
                                        static_cast<std::uint32_t>(shares.per_group),
                                        static_cast<std::uint32_t>(begin)};
    words.insert(words.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &first,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, first, groups * shares.local)});
  }
  return partial;
}

void reduce_on_device(OpBackend& backend, const Monoid& monoid, const ReductionItem& item,
                      std::span<const Slice> inputs, const Slice& output,
                      const std::string& finish) {
  std::size_t widest = 4;
  for (const Slice& input : inputs) widest = std::max(widest, size_of(input.type));
  const Shares shares = share_out(backend, inputs[0].size, widest, kLoads, 2);
  const std::vector<Slice> partial = reduce_shares(backend, monoid, item, inputs, shares);
  ir::Hash128 key =
      key_of("reduce_last", monoid.key.high, monoid.key.low, shares.local, output.type);
  ir::add_bytes(key, finish.data(), finish.size());
  const std::string conversions = finish.find("to_") != finish.npos
                                      ? conversion_functions(codegen::Precision::f64)
                                      : std::string();
  const ComputeKernel& last = kernel_for(
      key, [&] { return last_source(monoid, output.type, finish, shares.local, conversions); });
  std::vector<Argument> arguments;
  for (const Slice& p : partial) arguments.push_back(p.reads(backend));
  arguments.push_back(output.writes(backend));
  const auto groups = static_cast<std::uint32_t>(shares.groups);
  std::vector<std::uint32_t> words = {groups, groups};
  words.insert(words.end(), monoid.words.begin(), monoid.words.end());
  backend.launch({.kernel = &last, .arguments = arguments, .words = words, .groups = {}});
}

}  // namespace topograd::ops
