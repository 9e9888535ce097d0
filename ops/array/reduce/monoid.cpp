// Source of states and of their combination.
#include "monoid.hpp"

#include "../../../codegen/glsl/program.hpp"
#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"

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

}  // namespace topograd::ops
