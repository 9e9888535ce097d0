// Programs as GLSL: one statement per line, each `precise`, in a body or as a function.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"
#include "roll.hpp"

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
  Writer(const Prepared& prepared, const LeafNames& names, Precision precision, Shader& shader,
         const Roll* roll = nullptr)
      : prepared_(prepared),
        names_(names),
        precision_(precision),
        shader_(shader),
        roll_(roll),
        is_long_(prepared.is_long),
        made_{.numbers = std::vector<std::string>(prepared.program.nodes.size()),
              .conditions = std::vector<std::string>(prepared.program.nodes.size())} {}

  /// Writes these nodes; with a roll, its first steps instead.
  Expressions write_some(const std::vector<bool>& nodes, std::string_view prefix) {
    prefix_ = prefix;
    if (roll_ != nullptr) {
      declare_lanes();
      write_steps(roll_->steps);
      return std::move(made_);
    }
    for (Id id = 0; id < nodes.size(); ++id) {
      if (nodes[id]) write_node(id);
    }
    return std::move(made_);
  }

  Written write(const Expressions& known) {
    if (!known.numbers.empty()) made_ = known;
    if (roll_ != nullptr) {
      if (known.numbers.empty()) {
        declare_lanes();
        write_steps(roll_->steps);
      }
      write_steps(roll_->along);
    }
    for (Id id = 0; id < prepared_.program.nodes.size() && roll_ == nullptr; ++id) {
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
    for (std::size_t k = 0; k < node.operands().size() && roll_ != nullptr; ++k)
      read_once(node.args[k], reads_condition(node.op, k));
    if (node.op == Op::Literal) {
      numbers_[id] = literal(node.literal(), precision_);
      conditions_[id] = node.literal() != 0 ? "true" : "false";
    } else if (ir::is_leaf(node.op)) {
      numbers_[id] = names_.at(node.op, node.slot());
      name_condition(id);
    } else if (ir::info(node.op).boolean) {
      conditions_[id] = text(prefix_, "b", next_++);
      out_->line("bool ", conditions_[id], " = ", expression(node), ";");
      if (prepared_.as_number[id]) {
        define_number(id, text(conditions_[id], " ? ", literal(1, precision_), " : ",
                               literal(0, precision_)));
      }
    } else {
      define_number(id, expression(node, prepared_.is_zero_by_either(id)));
      name_condition(id);
    }
  }

  void define_number(Id id, const std::string& expression) {
    numbers_[id] = text(prefix_, "t", next_++);
    out_->line("precise ", scalar_type(precision_), " ", numbers_[id], " = ", expression, ";");
  }

  /// Names an element of an array that loops have written: compilers would load it at each use.
  void read_once(Id id, bool condition) {
    std::string& value = condition ? conditions_[id] : numbers_[id];
    if (value.starts_with(condition ? "flags[" : "lanes[")) value = name_read(value, condition);
  }

  std::string name_read(const std::string& element, bool condition) {
    std::string name = text(prefix_, "v", next_++);
    out_->line(condition ? "bool" : scalar_type(precision_), " ", name, " = ", element, ";");
    return name;
  }

  // Any number but zero is true, NaN too.
  void name_condition(Id id) {
    if (prepared_.as_condition[id]) {
      conditions_[id] = "(" + numbers_[id] + " != " + literal(0, precision_) + ")";
    }
  }

  const std::string& operand(const Node& node, std::size_t k) const {
    if (!lane_operands_[k].empty()) return lane_operands_[k];
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
    if (roll_ != nullptr) return true;  // in some lane
    const auto compared = [&](Id id) { return id == condition.args[0] || id == condition.args[1]; };
    return compared(node.args[1]) && compared(node.args[2]);
  }

  /// True for an angle between -π and π: the result of an inverse function, or a part of it.
  bool is_near(Id id) const {
    const auto is_angle = [&](Id of) {
      const Op op = prepared_.program.nodes[of].op;
      return op == Op::Acos || op == Op::Asin || op == Op::Atan || op == Op::Atan2;
    };
    const auto is_part = [&](Id of) {
      const Node& factor = prepared_.program.nodes[of];
      return factor.op == Op::Literal && std::abs(factor.literal()) <= 1;
    };
    const Node& node = prepared_.program.nodes[id];
    if (node.op != Op::Mul) return is_angle(id);
    return (is_part(node.args[0]) && is_angle(node.args[1])) ||
           (is_part(node.args[1]) && is_angle(node.args[0]));
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
    declare_zero();
    return std::signbit(from.literal()) ? text("(-", prefix_, "zero)") : text(prefix_, "zero");
  }

  void declare_zero() {
    if (has_zero_) return;
    out_->line("precise ", scalar_type(precision_), " ", prefix_,
               "zero = ", precision_ == Precision::f64 ? "double(" : "(",
               "uintBitsToFloat(zero_bits));");
    has_zero_ = true;
  }

  // Loops.

  void declare_lanes() {
    if (roll_->numbers > 0) out_->line(scalar_type(precision_), " lanes[", roll_->numbers, "];");
    if (roll_->flags > 0) out_->line("bool flags[", roll_->flags, "];");
  }

  void write_steps(const std::vector<RollStep>& steps) {
    const auto is_zero = [](const Node& node) {
      return node.op == Op::Literal && node.literal() == 0;
    };
    if (std::ranges::any_of(prepared_.program.nodes, is_zero)) declare_zero();
    for (const RollStep& step : steps) {
      if (step.scalar != ir::kNone) {
        write_node(step.scalar);
      } else if (!roll_->groups[step.groups[0]].computes) {
        write_copies(step.groups[0]);
      } else if (step.apart) {
        write_apart(step.groups);
      } else if (roll_->groups[step.groups[0]].calls) {
        write_calls(step.groups);
      } else {
        write_loop(step.groups);
      }
    }
    if (lane_indices_.empty()) return;
    std::string list;
    for (const std::uint32_t index : lane_indices_)
      list += (list.empty() ? "" : ", ") + unsigned_literal(index);
    // Not constant: compilers would copy a constant array at each use.
    shader_.declare(prefix_ + "places", text("uint ", prefix_, "places[", lane_indices_.size(),
                                             "] = uint[", lane_indices_.size(), "](", list, ");"));
  }

  void write_copies(std::uint32_t g) {
    const LaneGroup& group = roll_->groups[g];
    if (!group.stored || !group.array.empty()) return;
    for (std::uint32_t l = 0; l < group.members.size(); ++l) {
      const Id id = group.members[l];
      out_->line(group.boolean ? "flags[" : "lanes[", group.base + l,
                 "] = ", group.boolean ? conditions_[id] : numbers_[id], ";");
    }
  }

  /// Each lane as statements of its own.
  void write_apart(const std::vector<std::uint32_t>& groups) {
    for (std::size_t lane = 0; lane < roll_->groups[groups[0]].members.size(); ++lane)
      for (const std::uint32_t g : groups) write_node(roll_->groups[g].members[lane]);
    for (const std::uint32_t g : groups) write_copies(g);
  }

  /// A function of what a lane reads, and its calls.
  void write_calls(const std::vector<std::uint32_t>& groups) {
    const std::string name = text(prefix_, "lane", next_function_++);
    Lines body(1);
    Lines* const outside = std::exchange(out_, &body);
    const bool had_zero = std::exchange(has_zero_, false);
    const std::uint32_t next = std::exchange(next_, 0);
    parameters_.clear();
    for (const std::uint32_t g : groups) write_group(g);
    out_ = outside;
    has_zero_ = had_zero;
    next_ = next;
    std::vector<std::uint32_t> results;
    for (const std::uint32_t g : groups)
      if (roll_->groups[g].returned || roll_->groups[g].stored) results.push_back(g);
    declare_function(name, body.text(), results);
    const std::size_t lanes = roll_->groups[groups[0]].members.size();
    for (std::size_t lane = 0; lane < lanes; ++lane) write_call(name, results, lane);
    local_numbers_.clear();
    local_conditions_.clear();
    parameters_.clear();
    for (const std::uint32_t g : results) write_copies(g);
  }

  std::string_view type_of(const LaneGroup& group) const {
    return group.boolean ? "bool" : scalar_type(precision_);
  }
  const std::string& local(std::uint32_t g) const {
    return (roll_->groups[g].boolean ? local_conditions_ : local_numbers_).at(g);
  }

  /// "double", or a structure of results.
  std::string result_type(const std::string& name,
                          const std::vector<std::uint32_t>& results) const {
    if (results.size() == 1) return std::string(type_of(roll_->groups[results[0]]));
    return name + "_results";
  }

  /// Results are an output: glslang follows `precise` through the members of returned structures,
  /// which takes it minutes.
  void declare_function(const std::string& name, const std::string& body,
                        const std::vector<std::uint32_t>& results) {
    const std::string type = result_type(name, results);
    std::string members, values, parameters;
    for (std::size_t k = 0; k < results.size(); ++k) {
      members += text(k == 0 ? "" : " ", type_of(roll_->groups[results[k]]), " r", k, ";");
      values += text(k == 0 ? "" : ", ", local(results[k]));
    }
    for (const Parameter& parameter : parameters_)
      parameters += text("const ", parameter.type, " ", parameter.name, ", ");
    const bool one = results.size() == 1;
    shader_.declare(
        name, text(one ? std::string() : text("struct ", type, " { ", members, " };\n"), "void ",
                   name, "(", parameters, "out ", type, " results) {\n", body,
                   "  results = ", one ? values : text(type, "(", values, ")"), ";\n}\n"));
  }

  void write_call(const std::string& name, const std::vector<std::uint32_t>& results,
                  std::size_t lane) {
    std::string arguments;
    for (const Parameter& parameter : parameters_)
      arguments += parameter.arguments[parameter.arguments.size() == 1 ? 0 : lane] + ", ";
    const std::string made = text(prefix_, "got", next_++);
    const std::string type = result_type(name, results);
    out_->line(type, " ", made, "_out;");
    out_->line(name, "(", arguments, made, "_out);");
    out_->line(type, " ", made, " = ", made, "_out;");  // a value, which is read once
    for (std::size_t k = 0; k < results.size(); ++k) {
      const LaneGroup& group = roll_->groups[results[k]];
      const Id id = group.members[lane];
      const std::string member = text("r", k);
      const std::string value = results.size() == 1 ? made : text(made, ".", member);
      numbers_[id] = as_needed(value, group.boolean, false);
      conditions_[id] = as_needed(value, group.boolean, true);
      if (results.size() > 1) made_.members[id] = {made, type, member};
    }
  }

  /// Returns how a function of lanes names an operand: as a parameter, or as a member of one.
  std::string parameter(const LaneGroup& group, std::size_t k) {
    const LaneOperand& from = group.operands[k];
    const bool condition = reads_condition(group.first.op, k);
    if (from.scalar != ir::kNone) {
      const std::string& value = condition ? conditions_[from.scalar] : numbers_[from.scalar];
      return named_parameter(condition, {value});
    }
    const std::vector<Id>& members = roll_->groups[from.group].members;
    std::vector<std::string> values, structures;
    for (const std::uint32_t lane : from.lanes) {
      const Id id = members[lane];
      values.push_back(condition ? conditions_[id] : numbers_[id]);
      const auto member = made_.members.find(id);
      if (member != made_.members.end()) structures.push_back(member->second.structure);
    }
    if (structures.size() != values.size()) return named_parameter(condition, values);
    const Expressions::Member& member = made_.members.at(members[0]);
    const std::string value = text(named_parameter(member.type, structures), ".", member.name);
    return as_needed(value, roll_->groups[from.group].boolean, condition);
  }

  /// A number or condition as the other one, if that is read.
  std::string as_needed(const std::string& value, bool boolean, bool condition) const {
    const std::string zero = literal(0, precision_);
    if (boolean == condition) return value;
    return boolean ? text("(", value, " ? ", literal(1, precision_), " : ", zero, ")")
                   : text("(", value, " != ", zero, ")");
  }

  std::string named_parameter(bool condition, const std::vector<std::string>& arguments) {
    return named_parameter(condition ? "bool" : scalar_type(precision_), arguments);
  }
  /// arguments: by lane, or one for all lanes
  std::string named_parameter(std::string_view type, const std::vector<std::string>& arguments) {
    const auto same = [&](const Parameter& other) {
      return other.type == type && other.arguments == arguments;
    };
    const auto found = std::ranges::find_if(parameters_, same);
    if (found != parameters_.end()) return found->name;
    parameters_.push_back({text("a", parameters_.size()), std::string(type), arguments});
    return parameters_.back().name;
  }

  void write_loop(const std::vector<std::uint32_t>& groups) {
    shader_.need_extension("GL_EXT_control_flow_attributes");
    const std::size_t lanes = roll_->groups[groups[0]].members.size();
    out_->open("[[dont_unroll]] for (uint lane = 0u; lane < ", unsigned_literal(lanes),
               "; ++lane)");
    for (const std::uint32_t g : groups) write_group(g);
    out_->close();
    local_numbers_.clear();
    local_conditions_.clear();
    local_tables_.clear();
    local_reads_.clear();
    for (const std::uint32_t g : groups) {
      const LaneGroup& group = roll_->groups[g];
      for (std::uint32_t l = 0; l < lanes && group.stored; ++l) {
        const std::string index = unsigned_literal(group.base + l);
        numbers_[group.members[l]] = stored_number(group, index);
        conditions_[group.members[l]] = stored_condition(group, index);
      }
    }
  }

  /// One statement for all lanes of a group.
  void write_group(std::uint32_t g) {
    const LaneGroup& group = roll_->groups[g];
    read_operands(group);
    const std::string value =
        expression(group.first, prepared_.is_zero_by_either(group.members[0]));
    lane_operands_ = {};
    const std::string name = text(prefix_, group.boolean ? "b" : "t", next_++);
    const std::string zero = literal(0, precision_);
    Lines& body = *out_;
    if (group.boolean) {
      body.line("bool ", name, " = ", value, ";");
      local_conditions_[g] = name;
      local_numbers_[g] = text("(", name, " ? ", literal(1, precision_), " : ", zero, ")");
    } else {
      body.line("precise ", scalar_type(precision_), " ", name, " = ", value, ";");
      local_numbers_[g] = name;
      local_conditions_[g] = text("(", name, " != ", zero, ")");
    }
    if (!group.stored || group.calls) return;
    body.line(group.boolean ? "flags[" : "lanes[", affine(1, group.base), "] = ", name, ";");
  }

  void read_operands(const LaneGroup& group) {
    for (std::size_t k = 0; k < group.first.operands().size(); ++k) {
      const LaneOperand& from = group.operands[k];
      const bool condition = reads_condition(group.first.op, k);
      const auto& locals = condition ? local_conditions_ : local_numbers_;
      const auto local = locals.find(from.group);
      if (from.scalar == ir::kNone && local != locals.end()) {
        lane_operands_[k] = local->second;
      } else if (group.calls) {
        const bool literal =
            from.scalar != ir::kNone && prepared_.program.nodes[from.scalar].op == Op::Literal;
        if (!literal) lane_operands_[k] = parameter(group, k);
      } else if (from.scalar == ir::kNone) {
        lane_operands_[k] = element(roll_->groups[from.group], from.lanes, condition);
      }
    }
  }

  /// Returns the name of an element of an array in a loop, which is read once.
  std::string element(const LaneGroup& source, const std::vector<std::uint32_t>& lanes,
                      bool condition) {
    const std::string index = index_of(source, lanes);
    std::string there = condition ? stored_condition(source, index) : stored_number(source, index);
    if (!there.starts_with(condition ? "flags[" : "lanes[")) return there;
    std::string& read = local_reads_[there];
    if (read.empty()) read = name_read(there, condition);
    return read;
  }

  std::string stored_number(const LaneGroup& group, const std::string& index) const {
    if (!group.array.empty()) return text(group.array, "[", index, "]");
    if (!group.boolean) return text("lanes[", index, "]");
    return text("(flags[", index, "] ? ", literal(1, precision_), " : ", literal(0, precision_),
                ")");
  }
  std::string stored_condition(const LaneGroup& group, const std::string& index) const {
    if (group.boolean) return text("flags[", index, "]");
    return text("(", stored_number(group, index), " != ", literal(0, precision_), ")");
  }

  /// "lane", "lane + 7u", "3u * lane + 7u"
  static std::string affine(std::uint32_t factor, std::uint32_t first) {
    const std::string last = first == 0 ? std::string() : text(" + ", unsigned_literal(first));
    return text(factor == 1 ? "" : unsigned_literal(factor) + " * ", "lane", last);
  }

  /// Position in its array of what each lane reads: an expression, or a table.
  std::string index_of(const LaneGroup& source, const std::vector<std::uint32_t>& lanes) {
    std::vector<std::uint32_t> at;
    for (const std::uint32_t lane : lanes)
      at.push_back(source.array.empty() ? source.base + lane : source.indices[lane]);
    const std::uint32_t least = *std::ranges::min_element(at);
    const std::uint32_t factor = at[1] - at[0];
    bool regular = at[1] > at[0];
    for (std::size_t l = 0; l < at.size(); ++l) {
      regular = regular && at[l] == at[0] + l * factor;
      if (l > 0 && !regular) break;
    }
    if (regular) return affine(factor, at[0]);
    for (std::uint32_t& index : at) index -= least;
    const auto [table, fresh] =
        tables_.try_emplace(at, static_cast<std::uint32_t>(lane_indices_.size()));
    if (fresh) lane_indices_.insert(lane_indices_.end(), at.begin(), at.end());
    const std::string name = text("at", table->second);
    if (local_tables_.insert(table->second).second)
      out_->line("uint ", name, " = ", prefix_, "places[", affine(1, table->second), "];");
    return least == 0 ? name : text(name, " + ", unsigned_literal(least));
  }

  /// Functions, so that a product is one instruction of the module. A choice between names has no
  /// branch, and takes a fifth of the code.
  std::string_view declare_zero_times(bool either) {
    const std::string_view name = either ? "zero_times_zero" : "zero_times";
    const std::string_view type = scalar_type(precision_);
    const std::string zero = literal(0, precision_);
    Lines out;
    out.line("// a * b, and 0 where a is 0", either ? " or b is 0." : ".");
    out.open(type, " ", name, "(const ", type, " a, const ", type, " b)");
    out.line("precise ", type, " product = a * b;");
    out.line(either ? text(type, " value") : "return", either ? " = " : " ", "a == ", zero, " ? ",
             zero, " : product;");
    if (either) out.line("return b == ", zero, " ? ", zero, " : value;");
    out.close();
    shader_.declare(name, out.text());
    return name;
  }

  std::string expression(const Node& node, bool either = false) {
    const ir::OpInfo& info = ir::info(node.op);
    if (node.op == Op::Zmul && is_long_)
      return text(declare_zero_times(either), "(", arithmetic_operand(node, 0), ", ",
                  arithmetic_operand(node, 1), ")");
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
    const bool near = node.op == Op::Cos && is_near(node.args[0]);
    std::string call = shader_.math_function(near ? "cos_near" : info.function, precision_) + "(";
    for (std::size_t k = 0; k < node.operands().size(); ++k) {
      call += (k > 0 ? ", " : "") + arithmetic_operand(node, k);
    }
    return call + ")";
  }

  /// A parameter of a function of one lane.
  struct Parameter {
    std::string name, type;
    std::vector<std::string> arguments;  // by lane, or one for all lanes
  };

  const Prepared& prepared_;
  const LeafNames& names_;
  Precision precision_;
  Shader& shader_;
  Lines* out_ = &shader_.body();  // the body, or a function's
  const Roll* roll_;
  bool is_long_;
  Expressions made_;
  std::vector<std::string>& numbers_ = made_.numbers;
  std::vector<std::string>& conditions_ = made_.conditions;
  std::string prefix_;
  std::uint32_t next_ = 0, next_function_ = 0;
  bool has_zero_ = false;
  std::vector<Parameter> parameters_;
  // In a loop over lanes: by operand of the present group, and by group of the loop.
  std::array<std::string, 3> lane_operands_;
  std::map<std::uint32_t, std::string> local_numbers_, local_conditions_;
  std::set<std::uint32_t> local_tables_;            // tables that the loop has read
  std::map<std::string, std::string> local_reads_;  // elements that it has read
  std::vector<std::uint32_t> lane_indices_;         // of tables, one after another
  std::map<std::vector<std::uint32_t>, std::uint32_t> tables_;
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
      const bool of_block = node.op == Op::Parameter || node.op == Op::Tangent;
      invariant[id] = node.op == Op::Literal ||
                      (of_block && std::ranges::find(slots, node.slot()) != slots.end());
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

/// Writes the parameter list, and sets the names by which the body reads it.
std::string signature(const NamedProgram& function, Precision precision, LeafNames& names) {
  const std::string type(scalar_type(precision));
  const ir::LeafCounts& leaves = function.program->leaves;
  std::string list;
  const auto add = [&](std::string_view direction, const std::string& name) {
    list += (list.empty() ? "" : ", ") + text(direction, " ", type, " ", name);
  };
  for (std::uint32_t k = 0; k < leaves.parameters; ++k) {
    names.parameters.push_back(text("p", k));
    add("in", names.parameters.back());
  }
  for (std::uint32_t k = 0; k < leaves.data; ++k) {
    names.data.push_back(text("d", k));
    add("in", names.data.back());
  }
  for (std::uint32_t k = 0; k < function.program->outputs.size(); ++k) add("out", text("r", k));
  return text("void ", function.name, "(", list, ")");
}

}  // namespace

void Prepared::count_operations(std::array<std::uint32_t, ir::kOpCount>& counts,
                                const std::vector<bool>& repeated, std::uint32_t times) const {
  for (std::size_t id = 0; id < live.size(); ++id) {
    const Op op = program.nodes[id].op;
    if (!live[id] || ir::is_leaf(op)) continue;
    counts[static_cast<std::size_t>(op)] += !repeated.empty() && repeated[id] ? times : 1;
  }
}

namespace {

/// True for b == 0.
bool is_zero_test(std::span<const Node> nodes, const Node& node, Id b) {
  if (node.op != Op::Eq) return false;
  const auto is_zero = [&](Id id) {
    return nodes[id].op == Op::Literal && nodes[id].literal() == 0;
  };
  return (node.args[0] == b && is_zero(node.args[1])) ||
         (node.args[1] == b && is_zero(node.args[0]));
}

bool has_many_operations(const Prepared& prepared) {
  constexpr std::size_t kLong = 1000;  // drivers compile as many operations in 0.1 s
  std::array<std::uint32_t, ir::kOpCount> counts{};
  prepared.count_operations(counts);
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0}) > kLong;
}

/// Makes b == 0 ? 0 : zmul(a, b) one product. Derivatives of such products consist of them.
void merge_products(Prepared& out) {
  std::vector<Node>& nodes = out.program.nodes;
  out.zero_by_either.assign(nodes.size(), false);
  for (Id id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    if (node.op != Op::Select) continue;
    const Node &zero = nodes[node.args[1]], &product = nodes[node.args[2]];
    if (zero.op != Op::Literal || zero.literal() != 0 || std::signbit(zero.literal())) continue;
    if (product.op != Op::Zmul || out.zero_by_either[node.args[2]]) continue;
    if (!is_zero_test(nodes, nodes[node.args[0]], product.args[1])) continue;
    nodes[id] = Node(product);
    out.zero_by_either[id] = true;
  }
}

}  // namespace

Prepared prepare(const ir::Program& program, bool with_guards) {
  Prepared out;
  const bool composite = std::ranges::any_of(
      program.nodes, [](const Node& node) { return ir::info(node.op).composite; });
  out.program = ir::schedule(ir::finish(composite ? ir::expand(program) : program));
  find_uses(out, with_guards);
  out.is_long = has_many_operations(out);
  if (out.is_long) {
    merge_products(out);
    find_uses(out, with_guards);
  }
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

std::vector<bool> along_tangents(const Prepared& prepared) {
  const std::vector<Node>& nodes = prepared.program.nodes;
  std::vector<bool> along(nodes.size());
  for (Id id = 0; id < nodes.size(); ++id) {
    along[id] = prepared.live[id] &&
                (nodes[id].op == Op::Tangent ||
                 std::ranges::any_of(nodes[id].operands(), [&](Id arg) { return along[arg]; }));
  }
  return along;
}

Expressions write_without_tangents(const Prepared& prepared, const LeafNames& names,
                                   Precision precision, std::string_view prefix, Shader& shader,
                                   const Roll* roll) {
  std::vector<bool> wanted = along_tangents(prepared);
  for (std::size_t id = 0; id < wanted.size(); ++id) wanted[id] = prepared.live[id] && !wanted[id];
  return Writer(prepared, names, precision, shader, roll).write_some(wanted, prefix);
}

Written write_program(const Prepared& prepared, const LeafNames& names, Precision precision,
                      Shader& shader, const Expressions& known, const Roll* roll) {
  return Writer(prepared, names, precision, shader, roll).write(known);
}

std::string write_functions(std::span<const NamedProgram> programs, Precision precision) {
  // Shared library functions are written once, before all functions.
  Shader library;
  std::string out;
  for (const NamedProgram& function : programs) {
    if (!function.program->guards.empty()) {
      throw Error(ErrorCode::InvalidArgument,
                  text("write_functions: ", function.name, ": expected a program without guards"));
    }
    LeafNames names;
    const std::string head = signature(function, precision, names);
    const Prepared prepared = prepare(*function.program);
    const std::size_t before = library.body().text().size();
    const Written written = write_program(prepared, names, precision, library);
    out += head + " {\n" + library.body().text().substr(before);
    for (std::size_t k = 0; k < written.outputs.size(); ++k)
      out += text("  r", k, " = ", written.outputs[k], ";\n");
    out += "}\n";
  }
  return library.functions() + out;
}

}  // namespace topograd::codegen
