// Programs as plain C99 and as JavaScript: one statement per operation.
#include "c_source.hpp"

#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/text.hpp"
#include "../math/library.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::codegen {
namespace {

using ir::Id;
using ir::Node;
using ir::Op;

/// Functions that C lacks, or that differ at NaN, ties or signed zeros.
struct LibraryFunction {
  Op op;
  std::string_view name;
  std::string_view text;
};
constexpr std::array kLibrary = {
    LibraryFunction{Op::Rsqrt, "tg_rsqrt",
                    "static double tg_rsqrt(double a) { return 1.0 / sqrt(a); }\n"},
    LibraryFunction{
        Op::Sign, "tg_sign",
        "static double tg_sign(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a; }\n"},
    LibraryFunction{Op::Sigmoid, "tg_sigmoid",
                    R"(static double tg_sigmoid(double a) {
  const double power = exp(-fabs(a));
  return (a < 0.0 ? power : 1.0) / (1.0 + power);
}
)"},
    LibraryFunction{Op::NormalCdf, "tg_normal_cdf",
                    R"(static double tg_normal_cdf(double a) {
  return (double)(erfcl(-a * 0.707106781186547524400844362104849039L) / 2.0L);
}
)"},
    LibraryFunction{Op::Round, "tg_round",
                    R"(/* Half to even in any rounding mode. */
static double tg_round(double a) {
  const double low = floor(a), distance = a - low;
  if (isnan(distance) || distance == 0.0) return a;
  return copysign(distance > 0.5 || (distance == 0.5 && fmod(low, 2.0) != 0.0) ? low + 1.0 : low, a);
}
)"},
    LibraryFunction{Op::Mod, "tg_mod",
                    R"(/* Floored: the result has the divisor's sign. */
static double tg_mod(double a, double b) {
  const double remainder = fmod(a, b);
  if (remainder == 0.0) return copysign(remainder, b);
  return !signbit(remainder) != !signbit(b) ? remainder + b : remainder;
}
)"},
    LibraryFunction{Op::Min, "tg_min",
                    R"(/* NaN propagates, -0 is less than +0. */
static double tg_min(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}
)"},
    LibraryFunction{Op::Max, "tg_max",
                    R"(/* NaN propagates, -0 is less than +0. */
static double tg_max(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}
)"},
};

constexpr const LibraryFunction* find_library_function(Op op) {
  const auto* found = std::ranges::find(kLibrary, op, &LibraryFunction::op);
  return found == kLibrary.end() ? nullptr : found;
}

/// Functions of <math.h> that mean in C what they mean here.
constexpr std::array<std::string_view, 28> kOfC = {
    "acos", "acosh", "asin", "asinh", "atan",  "atan2", "atanh", "cbrt", "ceil",  "cos",
    "cosh", "erf",   "exp",  "exp2",  "expm1", "floor", "hypot", "log",  "log10", "log1p",
    "log2", "pow",   "sin",  "sinh",  "sqrt",  "tan",   "tanh",  "trunc"};

constexpr bool has_c_source(const ir::OpInfo& op) {
  return op.leaf || op.composite || !op.spelling.empty() ||
         find_library_function(op.op) != nullptr ||
         std::ranges::find(kOfC, op.function) != kOfC.end();
}
static_assert(std::ranges::all_of(ir::kOps, has_c_source), "an op that C source cannot call");

std::string c_literal(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "(-INFINITY)";
  std::string digits = ir::print_number(value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return std::signbit(value) ? "(" + digits + ")" : digits;
}

/// NaN and Infinity have names, and a number needs no decimal point.
std::string javascript_literal(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "(-Infinity)";
  const std::string digits = ir::print_number(value);
  return std::signbit(value) ? "(" + digits + ")" : digits;
}

std::string substitute_operands(const Node& node, const std::array<std::string, 3>& operands) {
  return substitute(ir::info(node.op).spelling,
                    {{"0", operands[0]}, {"1", operands[1]}, {"2", operands[2]}, {"T", ""}});
}

std::string call(std::string_view function, const Node& node,
                 const std::array<std::string, 3>& operands) {
  std::string text = std::string(function) + "(";
  for (std::size_t k = 0; k < node.operands().size(); ++k)
    text += (k > 0 ? ", " : "") + operands[k];
  return text + ")";
}

std::string c_expression(const Node& node, const std::array<std::string, 3>& operands) {
  const ir::OpInfo& info = ir::info(node.op);
  if (const LibraryFunction* ours = find_library_function(node.op))
    return call(ours->name, node, operands);
  if (node.op == Op::Abs) return call("fabs", node, operands);
  return info.spelling.empty() ? call(info.function, node, operands)
                               : substitute_operands(node, operands);
}

/// The function of the library that an op calls in JavaScript; empty: it has an operator.
std::string_view javascript_function(Op op) {
  if (op == Op::Abs) return "abs";
  if (op == Op::Fma) return "fma";
  return ir::info(op).spelling.empty() ? ir::info(op).function : std::string_view();
}

/// Conditions are numbers, and any number but zero is true, NaN too: JavaScript's own truth of NaN
/// is false.
std::string javascript_expression(const Node& node, const std::array<std::string, 3>& operands) {
  const ir::OpInfo& info = ir::info(node.op);
  const std::string_view function = javascript_function(node.op);
  if (!function.empty()) return call(codegen::math::javascript_spelling(function), node, operands);
  std::array<std::string, 3> read = operands;
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    if (info.logical || (node.op == Op::Select && k == 0)) read[k] = "(" + read[k] + " !== 0)";
  }
  std::string text = substitute_operands(node, read);
  for (const auto& [loose, strict] : {std::pair{" == ", " === "}, std::pair{" != ", " !== "}}) {
    if (const std::size_t at = text.find(loose); at != std::string::npos)
      text.replace(at, 4, strict);
  }
  return info.boolean ? text + " ? 1 : 0" : text;
}

/// Spellings that differ between the languages.
struct Language {
  std::string_view variable;  ///< before the name of a constant
  std::string (*literal)(double value);
  std::string (*expression)(const Node& node, const std::array<std::string, 3>& operands);
};
constexpr Language kC = {"const double ", c_literal, c_expression};
constexpr Language kJavaScript = {"const ", javascript_literal, javascript_expression};

/// Name of the pointer from which a kind of leaf is read: p, d, u, t or s.
char pointer(Op op) { return ir::info(op).name[0]; }

/// An operation, or the end that writes the outputs.
struct Statement {
  std::string name;            ///< of its value; empty: of none
  std::string text;            ///< lines
  std::vector<Id> reads = {};  ///< values of other statements
};

/// The statements of one function.
class PlainWriter {
 public:
  PlainWriter(const ir::Program& program, const Language& language)
      : program_(program),
        language_(language),
        names_(program.nodes.size()),
        statement_of_(program.nodes.size(), kNone),
        live_(program.nodes.size(), false) {
    for (const Id output : program.outputs) live_[output] = true;
    for (std::size_t id = live_.size(); id-- > 0;) {
      if (!live_[id]) continue;
      for (const Id operand : program.nodes[id].operands()) live_[operand] = true;
    }
  }

  void write() {
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      if (live_[id]) write_node(id);
    }
    Statement end;
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
      end.text += "  out[" + std::to_string(k) + "] = " + names_[program_.outputs[k]] + ";\n";
      read(program_.outputs[k], end);
    }
    statements_.push_back(std::move(end));
  }

  /// By the order in which they run; `reads` are numbers of statements.
  std::span<const Statement> statements() const { return statements_; }
  const std::set<Op>& used() const { return used_; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  void read(Id id, Statement& by) const {
    if (statement_of_[id] != kNone) by.reads.push_back(static_cast<Id>(statement_of_[id]));
  }

  void write_node(Id id) {
    const Node& node = program_.nodes[id];
    used_.insert(node.op);
    if (node.op == Op::Literal) {
      names_[id] = language_.literal(node.literal());
    } else if (ir::is_leaf(node.op)) {
      names_[id] = std::string(1, pointer(node.op)) + "[" + std::to_string(node.slot()) + "]";
    } else {
      std::array<std::string, 3> operands;
      Statement statement;
      for (std::size_t k = 0; k < node.operands().size(); ++k) {
        operands[k] = names_[node.args[k]];
        read(node.args[k], statement);
      }
      names_[id] = statement.name = "t" + std::to_string(statements_.size());
      statement.text = "  " + std::string(language_.variable) + names_[id] + " = " +
                       language_.expression(node, operands) + ";\n";
      statement_of_[id] = statements_.size();
      statements_.push_back(std::move(statement));
    }
  }

  const ir::Program& program_;
  const Language& language_;
  std::vector<std::string> names_;
  std::vector<std::size_t> statement_of_;  // by node; kNone: its name is a leaf or a number
  std::vector<bool> live_;
  std::set<Op> used_;
  std::vector<Statement> statements_;
};

std::string text_of(std::span<const Statement> statements) {
  std::string text;
  for (const Statement& statement : statements) text += statement.text;
  return text;
}

std::string counts(const PlainFunction& function) {
  const ir::LeafCounts& n = function.program.leaves;
  return function.title + ": " + std::to_string(n.parameters) + " parameters, " +
         std::to_string(n.data) + " data, " + std::to_string(n.uniforms) + " uniforms -> " +
         std::to_string(function.program.outputs.size()) + " outputs";
}

// Local names t0, t1, ... never hide the pointer `t`, which has no digits.
std::string c_head(const PlainFunction& function, const std::set<Op>& used) {
  std::string text = "/* " + counts(function) + " */\nvoid " + function.name +
                     "(const double* p, const double* d, const double* u, ";
  if (used.contains(Op::Tangent)) text += "const double* t, ";
  if (used.contains(Op::Seed)) text += "const double* s, ";
  text += "double* out) {\n";
  for (const Op op : {Op::Parameter, Op::Data, Op::Uniform}) {
    if (!used.contains(op)) text += std::string("  (void)") + pointer(op) + ";\n";
  }
  return text;
}

std::string c_function(const PlainFunction& function, const PlainWriter& writer) {
  return c_head(function, writer.used()) + text_of(writer.statements()) + "}\n";
}

// V8 does not optimise functions of more than 60 kB of its bytecode, 4,000 operations or so: they
// take ten times as long. Longer functions are written in parts, whose values pass through an
// array.
constexpr std::size_t kMostStatements = 1000, kStatementsOfPart = 500;

/// The parts of a function, and the indices in the array of values that other parts read.
class JavascriptParts {
 public:
  explicit JavascriptParts(std::span<const Statement> statements)
      : statements_(statements), index_(statements.size(), kNone) {
    for (std::size_t k = 0; k < statements.size(); ++k) {
      for (const Id other : statements[k].reads)
        if (part_of(other) != part_of(k) && index_[other] == kNone) index_[other] = values_++;
    }
  }

  std::size_t count() const { return part_of(statements_.size() - 1) + 1; }
  std::size_t values() const { return values_; }
  std::string body(std::size_t part) const {
    std::string text;
    std::set<Id> known;
    const std::size_t begin = part * kStatementsOfPart;
    for (std::size_t k = begin; k < statements_.size() && part_of(k) == part; ++k) {
      for (const Id other : statements_[k].reads) {
        if (part_of(other) == part || !known.insert(other).second) continue;
        text +=
            "  const " + statements_[other].name + " = w[" + std::to_string(index_[other]) + "];\n";
      }
      text += statements_[k].text;
      if (index_[k] != kNone)
        text += "  w[" + std::to_string(index_[k]) + "] = " + statements_[k].name + ";\n";
    }
    return text;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static std::size_t part_of(std::size_t statement) { return statement / kStatementsOfPart; }

  std::span<const Statement> statements_;
  std::vector<std::size_t> index_;
  std::size_t values_ = 0;
};

std::string javascript_function_source(const PlainFunction& function, const PlainWriter& writer) {
  const std::string arguments = std::string("p, d, u, ") +
                                (writer.used().contains(Op::Tangent) ? "t, " : "") +
                                (writer.used().contains(Op::Seed) ? "s, " : "") + "out";
  const std::string head =
      "// " + counts(function) + "\nexport function " + function.name + "(" + arguments + ") {\n";
  if (writer.statements().size() <= kMostStatements)
    return head + text_of(writer.statements()) + "}\n";
  const JavascriptParts parts(writer.statements());
  std::string text = "const " + function.name + "_values = new Float64Array(" +
                     std::to_string(parts.values()) + ");\n";
  std::string calls;
  for (std::size_t k = 0; k < parts.count(); ++k) {
    const std::string name = function.name + "_part" + std::to_string(k);
    text += "function " + name + "(" + arguments + ", w) {\n" + parts.body(k) + "}\n";
    calls += "  " + name + "(" + arguments + ", " + function.name + "_values);\n";
  }
  return text + head + calls + "}\n";
}

std::string one_line(std::string text) {
  for (std::size_t at; (at = text.find("*/")) != std::string::npos;) text.replace(at, 2, "* ");
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Bodies of functions, and the ops that they use.
struct Bodies {
  std::string text;
  std::set<Op> used;
};

Bodies write_bodies(const char* call, std::span<const PlainFunction> functions,
                    const Language& language,
                    std::string (*write)(const PlainFunction&, const PlainWriter&)) {
  Bodies out;
  for (const PlainFunction& f : functions) {
    if (!is_identifier(f.name)) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected an identifier as the function's name, got \"" +
                      f.name + "\"");
    }
    const PlainFunction expanded = {f.name, one_line(f.title),
                                    ir::remove_dead(ir::expand(f.program))};
    PlainWriter writer(expanded.program, language);
    writer.write();
    out.used.insert(writer.used().begin(), writer.used().end());
    out.text += "\n" + write(expanded, writer);
  }
  return out;
}

}  // namespace

std::string c_source(std::span<const CFunction> functions) {
  const Bodies bodies = write_bodies("c_source", functions, kC, c_function);
  std::string text = "#include <math.h>\n";
  for (const LibraryFunction& function : kLibrary) {
    if (bodies.used.contains(function.op)) text += "\n" + std::string(function.text);
  }
  return text + bodies.text;
}

std::string javascript_source(std::span<const PlainFunction> functions) {
  const Bodies bodies =
      write_bodies("javascript_source", functions, kJavaScript, javascript_function_source);
  std::vector<std::string_view> called;
  for (const Op op : bodies.used) {
    if (!ir::is_leaf(op) && !javascript_function(op).empty())
      called.push_back(javascript_function(op));
  }
  return "\"use strict\";\n" + codegen::math::javascript_library(called) + bodies.text;
}

}  // namespace topograd::codegen
