// Straight-line programs as GLSL statements: one per line, each `precise`.
#include "program.hpp"

#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::codegen {
namespace {

using ir::Id;
using ir::Node;
using ir::Op;

// True for operands of logical ops and the first operand of select; all others are numbers.
bool reads_condition(Op op, std::size_t operand) {
  return ir::info(op).logical || (op == Op::Select && operand == 0);
}

class Writer {
 public:
  Writer(const Prepared& prepared, const LeafNames& names, Precision precision, Shader& shader)
      : prepared_(prepared),
        names_(names),
        precision_(precision),
        shader_(shader),
        made_{.numbers = std::vector<std::string>(prepared.program.nodes.size()),
              .conditions = std::vector<std::string>(prepared.program.nodes.size())} {}

  Expressions write_some(const std::vector<bool>& nodes, std::string_view prefix) {
    prefix_ = prefix;
    for (Id id = 0; id < nodes.size(); ++id) {
      if (nodes[id]) write_node(id);
    }
    return std::move(made_);
  }

  Written write(const Expressions& known) {
    if (!known.numbers.empty()) made_ = known;
    for (Id id = 0; id < prepared_.program.nodes.size(); ++id) {
      const bool done = !numbers_[id].empty() || !conditions_[id].empty();
      if (prepared_.live[id] && !done) write_node(id);
    }
    Written out;
    for (const Id output : prepared_.program.outputs) out.outputs.push_back(numbers_[output]);
    for (const ir::Guard& guard : prepared_.program.guards) {
      if (!prepared_.as_condition[guard.condition]) continue;
      if (!out.failed.empty()) out.failed += " || ";
      out.failed += (guard.expected ? "!" : "") + conditions_[guard.condition];
    }
    return out;
  }

 private:
  void write_node(Id id) {
    const Node& node = prepared_.program.nodes[id];
    if (node.op == Op::Literal) {
      numbers_[id] = literal(node.literal(), precision_);
      conditions_[id] = node.literal() != 0 ? "true" : "false";
    } else if (ir::is_leaf(node.op)) {
      numbers_[id] = names_.at(node.op, node.slot());
      name_condition(id);
    } else if (ir::info(node.op).boolean) {
      conditions_[id] = text(prefix_, "b", next_++);
      shader_.body().line("bool ", conditions_[id], " = ", expression(node), ";");
      if (prepared_.as_number[id]) {
        define_number(id, text(conditions_[id], " ? ", literal(1, precision_), " : ",
                               literal(0, precision_)));
      }
    } else {
      define_number(id, expression(node));
      name_condition(id);
    }
  }

  void define_number(Id id, const std::string& expression) {
    numbers_[id] = text(prefix_, "t", next_++);
    shader_.body().line("precise ", scalar_type(precision_), " ", numbers_[id], " = ", expression,
                        ";");
  }

  // Any number but zero is true, NaN too.
  void name_condition(Id id) {
    if (prepared_.as_condition[id]) {
      conditions_[id] = "(" + numbers_[id] + " != " + literal(0, precision_) + ")";
    }
  }

  const std::string& operand(const Node& node, std::size_t k) const {
    return reads_condition(node.op, k) ? conditions_[node.args[k]] : numbers_[node.args[k]];
  }

  /// True for a division whose divisor may exceed the range in which f32 division is accurate.
  bool divides_by_any(const Node& node) const {
    if (node.op != Op::Div && node.op != Op::Reciprocal) return false;
    const Node& divisor = prepared_.program.nodes[node.args[node.op == Op::Div ? 1 : 0]];
    if (divisor.op == Op::Sqrt) return false;  // at most 2^64, or infinite
    return divisor.op != Op::Literal || !(std::abs(divisor.literal()) <= 0x1p125);
  }

  /// True for a <= 0 ? 0 : a and similar: drivers make it a maximum, which differs for NaN.
  bool is_maximum(const Node& node) const {
    if (node.op != Op::Select) return false;
    const Node& condition = prepared_.program.nodes[node.args[0]];
    if (!ir::info(condition.op).boolean || ir::info(condition.op).arity != 2) return false;
    const auto compared = [&](Id id) { return id == condition.args[0] || id == condition.args[1]; };
    return compared(node.args[1]) && compared(node.args[2]);
  }

  bool is_finite(double value) const {
    return std::isfinite(precision_ == Precision::f32 ? static_cast<float>(value) : value);
  }

  /// Writes an operand and hides zeros, NaN and infinities from the driver's compiler. If it knows
  /// a zero, the software device folds x * 0 to 0 and 0 - x to -x for any x. If it knows a NaN that
  /// reaches log10, NVIDIA's compiler (580.159) works for minutes on one kernel.
  std::string arithmetic_operand(const Node& node, std::size_t k) {
    const Node& from = prepared_.program.nodes[node.args[k]];
    const bool computes = !ir::info(node.op).boolean && !ir::info(node.op).logical &&
                          (node.op != Op::Select || (k > 0 && is_maximum(node)));
    if (!computes || from.op != Op::Literal) return operand(node, k);
    if (!is_finite(from.literal())) return hidden_literal(from.literal(), precision_);
    if (from.literal() != 0) return operand(node, k);
    if (!has_zero_) {
      shader_.body().line("precise ", scalar_type(precision_), " ", prefix_,
                          "zero = ", precision_ == Precision::f64 ? "double(" : "(",
                          "uintBitsToFloat(zero_bits));");
      has_zero_ = true;
    }
    return std::signbit(from.literal()) ? text("(-", prefix_, "zero)") : text(prefix_, "zero");
  }

  std::string expression(const Node& node) {
    const ir::OpInfo& info = ir::info(node.op);
    if (precision_ == Precision::f32 && divides_by_any(node)) {
      const bool reciprocal = node.op == Op::Reciprocal;
      return text(shader_.math_function("quotient", precision_), "(",
                  reciprocal ? literal(1, precision_) : arithmetic_operand(node, 0), ", ",
                  arithmetic_operand(node, reciprocal ? 0 : 1), ")");
    }
    if (!info.spelling.empty()) {
      const auto argument = [&](std::size_t k) {
        return k < node.operands().size() ? arithmetic_operand(node, k) : std::string();
      };
      return substitute(info.spelling, {{"0", argument(0)},
                                        {"1", argument(1)},
                                        {"2", argument(2)},
                                        {"T", std::string(scalar_type(precision_))}});
    }
    std::string call = shader_.math_function(info.function, precision_) + "(";
    for (std::size_t k = 0; k < node.operands().size(); ++k) {
      call += (k > 0 ? ", " : "") + arithmetic_operand(node, k);
    }
    return call + ")";
  }

  const Prepared& prepared_;
  const LeafNames& names_;
  Precision precision_;
  Shader& shader_;
  Expressions made_;
  std::vector<std::string>& numbers_ = made_.numbers;
  std::vector<std::string>& conditions_ = made_.conditions;
  std::string prefix_;
  std::uint32_t next_ = 0;
  bool has_zero_ = false;
};

bool is_costly(Op op) {
  return !ir::info(op).function.empty() || op == Op::Sqrt || op == Op::Rsqrt || op == Op::Div ||
         op == Op::Reciprocal;
}

/// Live nodes that are expensive and depend only on literals and leaves of `slots`, and their
/// operands.
std::vector<bool> find_invariant(const Prepared& prepared, std::span<const std::uint32_t> slots) {
  const std::vector<Node>& nodes = prepared.program.nodes;
  std::vector<bool> invariant(nodes.size()), wanted(nodes.size());
  for (Id id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    if (ir::is_leaf(node.op)) {
      const bool of_owner = node.op == Op::Parameter || node.op == Op::Tangent;
      invariant[id] = node.op == Op::Literal ||
                      (of_owner && std::ranges::find(slots, node.slot()) != slots.end());
    } else {
      invariant[id] = std::ranges::all_of(node.operands(), [&](Id arg) { return invariant[arg]; });
    }
  }
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (!invariant[id] || !prepared.live[id]) continue;
    wanted[id] = wanted[id] || is_costly(nodes[id].op);
    for (const Id arg : nodes[id].operands()) wanted[arg] = wanted[arg] || wanted[id];
  }
  return wanted;
}

void find_uses(Prepared& out, bool with_guards) {
  const std::size_t count = out.program.nodes.size();
  out.live.assign(count, false);
  out.as_number.assign(count, false);
  out.as_condition.assign(count, false);
  for (const Id output : out.program.outputs) out.as_number[output] = out.live[output] = true;
  if (with_guards) {
    for (const ir::Guard& g : out.program.guards)
      out.as_condition[g.condition] = out.live[g.condition] = true;
  }
  for (std::size_t id = count; id-- > 0;) {
    if (!out.live[id]) continue;
    const Node& node = out.program.nodes[id];
    for (std::size_t k = 0; k < node.operands().size(); ++k) {
      out.live[node.args[k]] = true;
      (reads_condition(node.op, k) ? out.as_condition : out.as_number)[node.args[k]] = true;
    }
  }
}

}  // namespace

void Prepared::count_operations(std::array<std::uint32_t, ir::kOpCount>& counts) const {
  for (std::size_t id = 0; id < live.size(); ++id) {
    const Op op = program.nodes[id].op;
    if (live[id] && !ir::is_leaf(op)) ++counts[static_cast<std::size_t>(op)];
  }
}

Prepared prepare(const ir::Program& program, bool with_guards) {
  Prepared out;
  const bool composite = std::ranges::any_of(
      program.nodes, [](const Node& node) { return ir::info(node.op).composite; });
  out.program = ir::schedule(composite ? ir::expand(program) : program);
  find_uses(out, with_guards);
  return out;
}

const std::vector<std::string>* LeafNames::space(Op op) const {
  if (op == Op::Parameter) return &parameters;
  if (op == Op::Tangent) return &tangents;
  if (op == Op::Data) return &data;
  if (op == Op::Uniform) return &uniforms;
  return op == Op::Seed ? &seeds : nullptr;
}

const std::string& LeafNames::at(Op op, std::uint32_t slot) const {
  const std::vector<std::string>* names = space(op);
  if (names == nullptr || slot >= names->size()) {
    throw Error(ErrorCode::InvalidArgument, text("generate: expected slots of ", ir::info(op).name,
                                                 " leaves below their count, got ", slot));
  }
  return (*names)[slot];
}

std::string& LeafNames::at(Op op, std::uint32_t slot) {
  return const_cast<std::string&>(static_cast<const LeafNames&>(*this).at(op, slot));
}

Expressions write_invariant(const Prepared& prepared, std::span<const std::uint32_t> slots,
                            const LeafNames& names, Precision precision, std::string_view prefix,
                            Shader& shader) {
  return Writer(prepared, names, precision, shader)
      .write_some(find_invariant(prepared, slots), prefix);
}

Written write_program(const Prepared& prepared, const LeafNames& names, Precision precision,
                      Shader& shader, const Expressions& known) {
  return Writer(prepared, names, precision, shader).write(known);
}

}  // namespace topograd::codegen
