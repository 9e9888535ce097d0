// Source of states and their combination; reductions in one pass and one over workgroups' results.
#include "reduce_device.hpp"

#include "../../../codegen/glsl/program.hpp"
#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"

#include <algorithm>
#include <bit>

namespace topograd::ops {

using codegen::text;

namespace {

// Tests bits, because compilers may assume that x != x is false.
constexpr std::string_view kFloatNumbers = R"(
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }
float infinite(uint sign) { return uintBitsToFloat((0x7f800000u | sign) ^ zero_bits); }
)";
constexpr std::string_view kDoubleNumbers = R"(
bool is_nan(double x) {
  uvec2 words = unpackDouble2x32(x);
  uint high = words.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && words.x != 0u);
}
bool is_finite(double x) { return (unpackDouble2x32(x).y & 0x7ff00000u) != 0x7ff00000u; }
double infinite(uint sign) { return packDouble2x32(uvec2(zero_bits, 0x7ff00000u | sign)); }
)";

std::string state_struct(const Monoid& monoid) {
  std::string out = "struct State {\n";
  for (std::size_t k = 0; k < monoid.members.size(); ++k)
    out += text("  ", glsl_name(monoid.members[k]), " m", k, ";\n");
  return out + "};\n";
}

/// The number that is worse than or equal to all others.
std::string worst(Type type, bool smallest) {
  switch (type) {
    case Type::i32: return smallest ? "0x7fffffff" : "int(0x80000000u)";
    case Type::u32: return smallest ? "0xffffffffu" : "0u";
    case Type::f32:
    case Type::f64:
    case Type::f16: break;
  }
  return smallest ? "infinite(0u)" : "infinite(0x80000000u)";
}

constexpr std::string_view kCompensated = R"(
State identity() { return State({T}(0), {T}(0)); }
State combine(State a, State b) {
  precise {T} s = a.m0 + b.m0;
  precise {T} other = s - a.m0;
  precise {T} error = (a.m0 - (s - other)) + (b.m0 - other);
  precise {T} carried = a.m1 + b.m1 + error;
  return State(s, carried);
}
{T} total(State s) {
  // An infinity or a NaN leaves nothing to carry.
  precise {T} sum = s.m0 + s.m1;
  return is_finite(s.m0) ? sum : s.m0;
}
)";

/// Branch-free, because branches would cost more than the comparisons. The first number stays if it
/// is not worse; NaN is better than any number.
std::string order_functions(Type type, bool smallest, bool with_index) {
  const char* const better = smallest ? "<" : ">";
  std::string out = "State combine(State a, State b) {\n";
  if (!with_index && !is_floating(type)) {
    out += text("  bool first = a.m0 ", better, "= b.m0;\n");
  } else if (!with_index) {
    out += text("  bool first = any(bvec2(is_nan(a.m0), a.m0 ", better, "= b.m0));\n");
  } else if (!is_floating(type)) {
    out += text("  bool tie = a.m0 == b.m0, wins = a.m0 ", better, " b.m0;\n");
  } else {
    out += text("  bool nan = is_nan(a.m0), other = is_nan(b.m0);\n",
                "  bool tie = any(bvec2(all(bvec2(nan, other)), a.m0 == b.m0));\n",
                "  bool wins = all(bvec2(any(bvec2(nan, a.m0 ", better, " b.m0)), !other));\n");
  }
  if (with_index) out += "  bool first = any(bvec2(wins, all(bvec2(tie, a.m1 <= b.m1))));\n";
  out += text("  return State(mix(b.m0, a.m0, first)", with_index ? ", mix(b.m1, a.m1, first)" : "",
              ");\n}\n");
  out += "State identity() { return State(" + worst(type, smallest) +
         (with_index ? ", 0xffffffffu" : "") + "); }\n";
  return out;
}

std::string plain_functions(const char* op, const char* unit, std::string_view type) {
  return text("State identity() { return State(", type, "(", unit, ")); }\n",
              "State combine(State a, State b) {\n  precise ", type, " r = a.m0 ", op,
              " b.m0;\n  return State(r);\n}\n");
}

}  // namespace

void add_members(const Monoid& monoid, Access access, KernelParts& parts) {
  for (std::size_t k = 0; k < monoid.members.size(); ++k)
    parts.arguments.push_back({text("p", k), std::string(glsl_name(monoid.members[k])), access});
}

std::string number_functions(Type type) {
  if (type == Type::f32) return std::string(kFloatNumbers);
  if (type == Type::f64) return std::string(kDoubleNumbers);
  return {};
}

Monoid monoid_of(Reduction reduction, Type type) {
  Monoid out{.key = key_of("monoid", reduction, type),
             .members = {type},
             .from_element = "State(v)",
             .result = "s.m0"};
  const std::string t(glsl_name(type));
  const bool with_index = reduction == Reduction::argmin || reduction == Reduction::argmax;
  if (with_index) {
    out.members.push_back(Type::u32);
    out.from_element = "State(v, place)";
    out.result = "s.m1";
  }
  if (reduction == Reduction::compensated_sum) {
    out.members.push_back(type);
    out.from_element = "State(v, " + t + "(0))";
    out.result = "total(s)";
  }
  out.functions = number_functions(type) + state_struct(out);
  switch (reduction) {
    case Reduction::sum: out.functions += plain_functions("+", "0", t); break;
    case Reduction::product: out.functions += plain_functions("*", "1", t); break;
    case Reduction::compensated_sum:
      out.functions += codegen::substitute(kCompensated, {{"T", t}});
      break;
    case Reduction::min:
    case Reduction::argmin: out.functions += order_functions(type, true, with_index); break;
    case Reduction::max:
    case Reduction::argmax: out.functions += order_functions(type, false, with_index); break;
  }
  return out;
}

Monoid monoid_of(const FittedExpression& fold, double identity, codegen::Precision precision,
                 const ir::Program* element) {
  const bool wide = precision == codegen::Precision::f64;
  Monoid out{.key = key_of("fold", fold.hash.high, fold.hash.low, fold.numbers, wide),
             .members = {wide ? Type::f64 : Type::f32},
             .from_element = "State(v)",
             .result = "s.m0",
             .word_names = number_words(fold, precision),
             .words = fold.words};
  const auto bits = std::bit_cast<std::uint64_t>(identity);
  std::string unit = "uintBitsToFloat(identity_0)";
  out.word_names.emplace_back("identity_0");
  if (wide) {
    out.word_names.emplace_back("identity_1");
    out.words.push_back(static_cast<std::uint32_t>(bits));
    out.words.push_back(static_cast<std::uint32_t>(bits >> 32));
    unit = "packDouble2x32(uvec2(identity_0, identity_1))";
  } else {
    out.words.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(identity)));
  }
  std::vector<codegen::NamedProgram> programs = {{"fold", &fold.program}};
  if (element != nullptr) programs.push_back({"element", element});
  out.functions = codegen::write_functions(programs, precision) + state_struct(out) +
                  "State identity() { return State(" + unit + "); }\n" +
                  "State combine(State a, State b) {\n  State r;\n  fold(a.m0, b.m0" +
                  number_arguments(fold, precision) + ", r.m0);\n  return r;\n}\n";
  return out;
}

void order_by(const Expression& fold, Monoid& monoid) {
  monoid.ordered = !commutes(fold);
  monoid.key.add(monoid.ordered);
}

std::string FoldForm::item_function(std::string_view base) const {
  return text("State item(uint i) {\n", item.statements, "  uint place = ", base,
              " + i;\n  return ", monoid.from_element, ";\n}\n");
}

std::string FoldForm::result_of(const std::string& state) const {
  const std::string number = monoid.result == "s.m0"   ? state + ".m0"
                             : monoid.result == "s.m1" ? state + ".m1"
                                                       : "total(" + state + ")";
  return codegen::substitute(result, {{"0", number}});
}

FoldForm form_of(Reduction reduction, Type type) {
  return {.monoid = monoid_of(reduction, type),
          .item = {.key = key_of("operand", 0),
                   .functions = {},
                   .statements = text("  ", glsl_name(type), " v = x0(i);\n")},
          .result = "{0}",
          .functions = {}};
}

FoldForm form_of(const Expression& fold, double identity, Type type, std::uint32_t room) {
  const codegen::Precision precision = precision_for({&type, 1});
  const FittedExpression fitted = fit(fold, precision, room - 2);
  FoldForm out{.monoid = monoid_of(fitted, identity, precision, nullptr),
               .item = {.key = key_of("loaded", type),
                        .functions = {},
                        .statements = text("  ", codegen::scalar_type(precision),
                                           " v = ", load_source(type, precision, "x0(i)"), ";\n")},
               .result = store_source(type, precision, "{0}"),
               .functions = {}};
  order_by(fold, out.monoid);
  if (!is_floating(type)) out.functions = conversion_functions(precision);
  return out;
}

std::string load_state(const Monoid& monoid, const std::string& index) {
  return monoid.members.size() == 1 ? "State(p0(" + index + "))"
                                    : "State(p0(" + index + "), p1(" + index + "))";
}

std::string store_state(const Monoid& monoid, const std::string& index, const std::string& state) {
  std::string out = "p0(" + index + ") = " + state + ".m0;";
  if (monoid.members.size() > 1) out += " p1(" + index + ") = " + state + ".m1;";
  return out;
}

std::string tree_source(std::uint32_t local) {
  std::string out = "  shared_states[gl_LocalInvocationID.x] = s;\n  barrier();\n";
  for (std::uint32_t width = 1; width < local; width *= 2) {
    out += text("  if (gl_LocalInvocationID.x % ", 2 * width,
                "u == 0u) shared_states[gl_LocalInvocationID.x] = "
                "combine(shared_states[gl_LocalInvocationID.x], "
                "shared_states[gl_LocalInvocationID.x + ",
                width, "u]);\n  barrier();\n");
  }
  return out;
}

namespace {

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
