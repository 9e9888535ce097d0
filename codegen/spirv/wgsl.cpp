// Modules as WGSL: structured control flow becomes if and loop, results become expressions.
#include "cross.hpp"

#include <spirv-tools/libspirv.h>

#include <spirv_cross/GLSL.std.450.h>
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "edit_modules.hpp"

namespace topograd::codegen {
namespace {

using Id = std::uint32_t;

struct Instruction {
  std::uint32_t opcode = 0;
  std::vector<std::uint32_t> words;
  std::vector<std::uint16_t> ids;  ///< positions of ids in the words
  Id type = 0, result = 0;

  std::uint32_t operator[](std::size_t k) const { return words[k]; }
};

[[noreturn]] void refuse(const std::string& feature) {
  throw Error(ErrorCode::Unsupported, "wgsl: WGSL cannot say: " + feature);
}

spv_result_t add_instruction(void* data, const spv_parsed_instruction_t* parsed) {
  auto& out = *static_cast<std::vector<Instruction>*>(data);
  Instruction one{.opcode = parsed->opcode,
                  .words = {parsed->words, parsed->words + parsed->num_words},
                  .ids = {},
                  .type = parsed->type_id,
                  .result = parsed->result_id};
  for (std::uint16_t k = 0; k < parsed->num_operands; ++k) {
    const spv_operand_type_t type = parsed->operands[k].type;
    if (type == SPV_OPERAND_TYPE_ID) one.ids.push_back(parsed->operands[k].offset);
  }
  out.push_back(std::move(one));
  return SPV_SUCCESS;
}

std::vector<Instruction> parse(std::span<const std::uint32_t> module) {
  std::vector<Instruction> out;
  const std::unique_ptr<spv_context_t, decltype(&spvContextDestroy)> context(
      spvContextCreate(SPV_ENV_VULKAN_1_2), &spvContextDestroy);
  if (!looks_like_spirv(module) ||
      spvBinaryParse(context.get(), &out, module.data(), module.size(), nullptr, add_instruction,
                     nullptr) != SPV_SUCCESS) {
    throw Error(ErrorCode::InvalidArgument, "wgsl: expected a whole SPIR-V module, got " +
                                                std::to_string(module.size()) +
                                                " words that are none");
  }
  return out;
}

struct Operator {
  std::uint32_t opcode;
  std::string_view text;
};
constexpr std::array kBinary = {
    Operator{spv::OpIAdd, "+"},
    Operator{spv::OpFAdd, "+"},
    Operator{spv::OpISub, "-"},
    Operator{spv::OpFSub, "-"},
    Operator{spv::OpIMul, "*"},
    Operator{spv::OpFMul, "*"},
    Operator{spv::OpVectorTimesScalar, "*"},
    Operator{spv::OpUDiv, "/"},
    Operator{spv::OpSDiv, "/"},
    Operator{spv::OpFDiv, "/"},
    Operator{spv::OpUMod, "%"},
    Operator{spv::OpSRem, "%"},
    Operator{spv::OpFRem, "%"},
    Operator{spv::OpBitwiseAnd, "&"},
    Operator{spv::OpBitwiseOr, "|"},
    Operator{spv::OpBitwiseXor, "^"},
    Operator{spv::OpLogicalAnd, "&&"},
    Operator{spv::OpLogicalOr, "||"},
    Operator{spv::OpLogicalEqual, "=="},
    Operator{spv::OpLogicalNotEqual, "!="},
    Operator{spv::OpIEqual, "=="},
    Operator{spv::OpINotEqual, "!="},
    Operator{spv::OpULessThan, "<"},
    Operator{spv::OpSLessThan, "<"},
    Operator{spv::OpULessThanEqual, "<="},
    Operator{spv::OpSLessThanEqual, "<="},
    Operator{spv::OpUGreaterThan, ">"},
    Operator{spv::OpSGreaterThan, ">"},
    Operator{spv::OpUGreaterThanEqual, ">="},
    Operator{spv::OpSGreaterThanEqual, ">="},
    Operator{spv::OpFOrdEqual, "=="},
    Operator{spv::OpFUnordNotEqual, "!="},
    Operator{spv::OpFOrdNotEqual, "!="},
    Operator{spv::OpFOrdLessThan, "<"},
    Operator{spv::OpFOrdLessThanEqual, "<="},
    Operator{spv::OpFOrdGreaterThan, ">"},
    Operator{spv::OpFOrdGreaterThanEqual, ">="},
};
constexpr std::array kUnary = {
    Operator{spv::OpFNegate, "-"},
    Operator{spv::OpSNegate, "-"},
    Operator{spv::OpNot, "~"},
    Operator{spv::OpLogicalNot, "!"},
};
/// Functions of one name and the operands as they are.
constexpr std::array kExtended = {
    Operator{GLSLstd450FAbs, "abs"},
    Operator{GLSLstd450SAbs, "abs"},
    Operator{GLSLstd450Floor, "floor"},
    Operator{GLSLstd450Ceil, "ceil"},
    Operator{GLSLstd450Trunc, "trunc"},
    Operator{GLSLstd450RoundEven, "round"},
    Operator{GLSLstd450Sqrt, "sqrt"},
    Operator{GLSLstd450InverseSqrt, "inverseSqrt"},
    Operator{GLSLstd450Fma, "fma"},
    Operator{GLSLstd450FMin, "min"},
    Operator{GLSLstd450FMax, "max"},
    Operator{GLSLstd450UMin, "min"},
    Operator{GLSLstd450UMax, "max"},
    Operator{GLSLstd450SMin, "min"},
    Operator{GLSLstd450SMax, "max"},
    Operator{GLSLstd450NMin, "min"},
    Operator{GLSLstd450NMax, "max"},
    Operator{GLSLstd450Exp, "exp"},
    Operator{GLSLstd450Exp2, "exp2"},
    Operator{GLSLstd450Log, "log"},
    Operator{GLSLstd450Log2, "log2"},
    Operator{GLSLstd450Sin, "sin"},
    Operator{GLSLstd450Cos, "cos"},
    Operator{GLSLstd450Pow, "pow"},
    Operator{GLSLstd450UClamp, "clamp"},
    Operator{GLSLstd450SClamp, "clamp"},
    Operator{GLSLstd450FClamp, "clamp"},
    Operator{GLSLstd450FindUMsb, "firstLeadingBit"},
    Operator{GLSLstd450FindSMsb, "firstLeadingBit"},
    Operator{GLSLstd450FindILsb, "firstTrailingBit"},
};

template <std::size_t N>
std::string_view find(const std::array<Operator, N>& table, std::uint32_t opcode) {
  const auto* found = std::ranges::find(table, opcode, &Operator::opcode);
  return found == table.end() ? std::string_view() : found->text;
}

struct BuiltIn {
  std::uint32_t number;
  std::string_view attribute, type;
};
constexpr std::array kBuiltIns = {
    BuiltIn{spv::BuiltInNumWorkgroups, "num_workgroups", "vec3<u32>"},
    BuiltIn{spv::BuiltInWorkgroupId, "workgroup_id", "vec3<u32>"},
    BuiltIn{spv::BuiltInLocalInvocationId, "local_invocation_id", "vec3<u32>"},
    BuiltIn{spv::BuiltInGlobalInvocationId, "global_invocation_id", "vec3<u32>"},
    BuiltIn{spv::BuiltInLocalInvocationIndex, "local_invocation_index", "u32"},
};

/// Helpers for operations with two results, as a struct of the given name.
constexpr std::string_view kMulExtended = R"(fn tg_mul_extended_{S}(a: u32, b: u32) -> {S} {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return {S}(a * b, ah * bh + (middle >> 16u) + (other >> 16u));
}
)";
constexpr std::string_view kAddCarry = R"(fn tg_add_carry_{S}(a: u32, b: u32) -> {S} {
  let sum = a + b;
  return {S}(sum, select(0u, 1u, sum < a));
}
)";
/// Ends what a compiler may see as one expression of floats.
constexpr std::string_view kRounded = R"(fn tg_rounded_{N}(x: {F}) -> {F} {
  return bitcast<{F}>(bitcast<{U}>(x) ^ {U}(tg_zero));
}
)";
constexpr std::string_view kSubBorrow = R"(fn tg_sub_borrow_{S}(a: u32, b: u32) -> {S} {
  return {S}(a - b, select(0u, 1u, a < b));
}
)";

/// Types, constants, names and decorations of a module, as text.
class Globals {
 public:
  explicit Globals(const std::vector<Instruction>& module) {
    for (const Instruction& one : module) {
      if (one.opcode == spv::OpFunction) break;
      take(one);
    }
    for (const Instruction& one : module) {
      if (one.result != 0) by_result_[one.result] = &one;
    }
  }

  const Instruction& at(Id id) const { return *by_result_.at(id); }
  bool has(Id id) const { return by_result_.contains(id); }
  Id entry() const { return entry_; }
  std::array<std::uint32_t, 3> size() const { return size_; }
  /// True for integers and vectors of them.
  bool is_integer(Id type) const {
    const Instruction& t = at(type);
    return at(t.opcode == spv::OpTypeVector ? t[2] : type).opcode == spv::OpTypeInt;
  }
  Id pointee(Id pointer_type) const { return at(pointer_type)[3]; }
  std::uint32_t storage(Id pointer_type) const { return at(pointer_type)[2]; }

  /// A name that no other id has.
  std::string name(Id id) {
    std::string& made = unique_[id];
    if (!made.empty()) return made;
    const auto given = names_.find(id);
    std::string plain = given == names_.end() ? std::string() : given->second;
    plain = plain.substr(0, plain.find('('));
    const bool fits = !plain.empty() && std::ranges::all_of(plain, [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
    if (!fits || plain.starts_with("__") || plain == "_") plain = "v";
    made = plain + "_";
    if (plain == "v" || !taken_.insert(made).second) {
      made = plain + "_" + std::to_string(id);
      taken_.insert(made);
    }
    return made;
  }

  std::string member(Id structure, std::uint32_t k) const {
    const auto given = members_.find({structure, k});
    return given == members_.end() || given->second.empty() ? "m" + std::to_string(k)
                                                            : given->second + "_";
  }

  std::string type(Id id) {
    const Instruction& t = at(id);
    switch (t.opcode) {
      case spv::OpTypeVoid: return "";
      case spv::OpTypeBool: return "bool";
      case spv::OpTypeInt:
        if (t[2] != 32) refuse(std::to_string(t[2]) + "-bit integers");
        return t[3] != 0 ? "i32" : "u32";
      case spv::OpTypeFloat:
        if (t[2] != 32) refuse(std::to_string(t[2]) + "-bit floats");
        return "f32";
      case spv::OpTypeVector: return "vec" + std::to_string(t[3]) + "<" + type(t[2]) + ">";
      case spv::OpTypeArray: return "array<" + type(t[2]) + ", " + constant(t[3]) + ">";
      case spv::OpTypeRuntimeArray: return "array<" + type(t[2]) + ">";
      case spv::OpTypeStruct: structures_.insert(id); return name(id);
      case spv::OpTypePointer: return "ptr<function, " + type(t[3]) + ">";
      default: refuse("type " + std::to_string(t.opcode));
    }
  }

  /// True for the ids of constants.
  bool is_constant(Id id) const {
    switch (at(id).opcode) {
      case spv::OpConstant:
      case spv::OpConstantTrue:
      case spv::OpConstantFalse:
      case spv::OpConstantNull:
      case spv::OpConstantComposite:
      case spv::OpSpecConstant:
      case spv::OpSpecConstantComposite:
      case spv::OpUndef: return true;
      default: return false;
    }
  }

  std::string constant(Id id) {
    const Instruction& c = at(id);
    switch (c.opcode) {
      case spv::OpConstantTrue: return "true";
      case spv::OpConstantFalse: return "false";
      case spv::OpUndef:
      case spv::OpConstantNull: return type(c.type) + "()";
      case spv::OpSpecConstant:
      case spv::OpConstant: return number(c);
      default: break;
    }
    std::string text = type(c.type) + "(";
    for (std::size_t k = 3; k < c.words.size(); ++k)
      text += (k > 3 ? ", " : "") + constant(c.words[k]);
    return text + ")";
  }

  std::uint32_t decoration(Id id, std::uint32_t kind, std::uint32_t otherwise) const {
    const auto found = decorations_.find({id, kind});
    return found == decorations_.end() ? otherwise : found->second;
  }
  /// True for results that must be rounded as they stand (`precise` in GLSL).
  bool is_precise(Id result) const {
    return decorations_.contains({result, spv::DecorationNoContraction});
  }
  /// True if a buffer's block, or each of its members, cannot be written.
  bool is_read_only(Id variable, Id structure) const {
    return decorations_.contains({variable, spv::DecorationNonWritable}) ||
           read_only_.contains(structure);
  }

  /// A zero that the browser's compiler does not know.
  std::string_view zero() {
    needs_zero_ = true;
    return "tg_zero";
  }
  bool needs_zero() const { return needs_zero_; }

  /// Declarations of all structures that were named, after those that they contain.
  std::string structures() {
    std::string text;
    std::set<Id> done;
    for (bool more = true; more;) {
      more = false;
      for (const Id id : std::set<Id>(structures_)) {
        if (done.contains(id)) continue;
        more = true;
        done.insert(id);
        const Instruction& s = at(id);
        text += "struct " + name(id) + " {\n";
        for (std::uint32_t k = 0; k + 2 < s.words.size(); ++k)
          text += "  " + member(id, k) + ": " + type(s.words[k + 2]) + ",\n";
        text += "}\n";
      }
    }
    return text;
  }

 private:
  void take(const Instruction& one) {
    switch (one.opcode) {
      case spv::OpName: names_[one[1]] = literal_string(std::span(one.words).subspan(2)); break;
      case spv::OpMemberName:
        members_[{one[1], one[2]}] = literal_string(std::span(one.words).subspan(3));
        break;
      case spv::OpDecorate:
        decorations_[{one[1], one[2]}] = one.words.size() > 3 ? one[3] : 0;
        break;
      case spv::OpMemberDecorate:
        if (one[3] == spv::DecorationNonWritable) read_only_.insert(one[1]);
        break;
      case spv::OpEntryPoint: entry_ = one[2]; break;
      case spv::OpExecutionMode:
        if (one[2] == spv::ExecutionModeLocalSize) size_ = {one[3], one[4], one[5]};
        break;
      default: break;
    }
  }

  std::string number(const Instruction& c) {
    const Instruction& t = at(c.type);
    if (t.opcode == spv::OpTypeInt && t[3] == 0) return std::to_string(c[3]) + "u";
    if (t.opcode == spv::OpTypeInt) {
      const auto value = static_cast<std::int32_t>(c[3]);
      return "i32(" + std::to_string(value) + ")";
    }
    const auto value = std::bit_cast<float>(c[3]);
    if (std::isnormal(value) || value == 0) {
      std::array<char, 64> buffer;
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
      return (std::signbit(value) ? "(" : "") + std::string(buffer.data(), end) + "f" +
             (std::signbit(value) ? ")" : "");
    }
    // NaN and infinities are errors in constant expressions, and subnormal numbers may be lost.
    return "bitcast<f32>(" + std::to_string(c[3]) + "u | " + std::string(zero()) + ")";
  }

  std::map<Id, const Instruction*> by_result_;
  std::map<Id, std::string> names_, unique_;
  std::set<std::string> taken_;
  std::map<std::pair<Id, std::uint32_t>, std::string> members_;
  std::map<std::pair<Id, std::uint32_t>, std::uint32_t> decorations_;
  std::set<Id> read_only_, structures_;
  Id entry_ = 0;
  std::array<std::uint32_t, 3> size_ = {1, 1, 1};
  bool needs_zero_ = false;
};

struct Block {
  std::vector<const Instruction*> body;  ///< without label, merge and terminator
  const Instruction* merge = nullptr;
  const Instruction* end = nullptr;
};

/// One function.
class FunctionWriter {
 public:
  FunctionWriter(Globals& globals, std::set<std::string>& helpers,
                 std::span<const Instruction> body)
      : globals_(globals), helpers_(helpers), function_(body[0]) {
    Block* block = nullptr;
    for (const Instruction& one : body.subspan(1)) {
      if (one.opcode == spv::OpFunctionParameter) {
        parameters_.push_back(&one);
      } else if (one.opcode == spv::OpLabel) {
        if (first_ == 0) first_ = one.result;
        label_ = one.result;
        block = &blocks_[label_];
      } else if (one.opcode == spv::OpSelectionMerge || one.opcode == spv::OpLoopMerge) {
        block->merge = &one;
      } else if (is_end(one)) {
        block->end = &one;
        count(one);
      } else if (block != nullptr && one.opcode != spv::OpLine && one.opcode != spv::OpNoLine) {
        block->body.push_back(&one);
        if (one.result != 0) home_[one.result] = label_;
        count(one);
      }
    }
  }

  std::string write() {
    emit_block(first_);
    std::string text = "fn " + globals_.name(function_.result) + "(";
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      text += (k > 0 ? ", " : "") + globals_.name(parameters_[k]->result) + ": " +
              globals_.type(parameters_[k]->type);
    }
    const std::string result = globals_.type(function_.type);
    return text + ")" + (result.empty() ? "" : " -> " + result) + " {\n" + hoisted_ + body_ + "}\n";
  }
  /// The parts of an entry point between its braces.
  std::string write_body() {
    emit_block(first_);
    return hoisted_ + body_;
  }
  const std::set<Id>& called() const { return called_; }

 private:
  static bool is_end(const Instruction& one) {
    switch (one.opcode) {
      case spv::OpBranch:
      case spv::OpBranchConditional:
      case spv::OpReturn:
      case spv::OpReturnValue:
      case spv::OpUnreachable: return true;
      case spv::OpSwitch: refuse("a switch");
      case spv::OpKill: refuse("the end of an invocation");
      default: return false;
    }
  }

  void count(const Instruction& one) {
    for (std::size_t k = 0; k < one.ids.size(); ++k) {
      const Id id = one[one.ids[k]];
      ++uses_[id];
      const Id from = one.opcode == spv::OpPhi && k % 2 == 0 && k + 1 < one.ids.size()
                          ? one[one.ids[k + 1]]
                          : label_;
      const auto home = home_.find(id);
      // A phi's operand is read at the end of its own block.
      if (home == home_.end() || home->second != from || one.opcode == spv::OpPhi)
        elsewhere_.insert(id);
    }
  }

  void line(const std::string& text) {
    body_.append(static_cast<std::size_t>(2 * depth_), ' ');
    body_ += text + "\n";
  }

  std::string value(Id id) {
    if (const auto found = pending_.find(id); found != pending_.end()) {
      std::string text = std::move(found->second);
      pending_.erase(found);
      std::erase(order_, id);
      return text;
    }
    if (const auto found = text_.find(id); found != text_.end()) return found->second;
    if (globals_.is_constant(id)) return globals_.constant(id);
    return globals_.name(id);
  }

  /// The WGSL reference to what a pointer points to.
  std::string reference(Id id) {
    if (const auto found = references_.find(id); found != references_.end()) return found->second;
    const bool parameter =
        std::ranges::any_of(parameters_, [&](const Instruction* one) { return one->result == id; });
    return parameter ? "(*" + globals_.name(id) + ")" : globals_.name(id);
  }

  /// Gives the results that wait for their use a name, before memory changes.
  void flush() {
    for (const Id id : std::exchange(order_, {})) {
      line("let " + globals_.name(id) + " = " + pending_[id] + ";");
      pending_.erase(id);
      text_[id] = globals_.name(id);
    }
  }

  void define(const Instruction& one, const std::string& expression) {
    const Id id = one.result;
    if (elsewhere_.contains(id)) {
      hoisted_ += "  var " + globals_.name(id) + ": " + globals_.type(one.type) + ";\n";
      line(globals_.name(id) + " = " + expression + ";");
      text_[id] = globals_.name(id);
    } else if (uses_[id] == 1) {
      pending_[id] = expression;
      order_.push_back(id);
    } else if (uses_[id] > 1) {
      line("let " + globals_.name(id) + " = " + expression + ";");
      text_[id] = globals_.name(id);
    }
  }

  std::string call(std::string_view function, const Instruction& one, std::size_t first) {
    std::string text = std::string(function) + "(";
    for (std::size_t k = first; k < one.words.size(); ++k)
      text += (k > first ? ", " : "") + value(one[k]);
    return text + ")";
  }

  void emit(const Instruction& one) {
    switch (one.opcode) {
      case spv::OpVariable: return declare(one);
      case spv::OpStore: {
        const std::string to = reference(one[1]), from = value(one[2]);
        flush();
        return line(to + " = " + from + ";");
      }
      case spv::OpAccessChain:
      case spv::OpInBoundsAccessChain: return chain(one);
      case spv::OpFunctionCall: return call_function(one);
      case spv::OpControlBarrier: flush(); return line("workgroupBarrier();");
      case spv::OpMemoryBarrier: return flush();
      case spv::OpPhi: return declare_phi(one);
      case spv::OpUndef: return;
      case spv::OpCopyMemory: refuse("a copy of memory");
      default: return define(one, expression(one));
    }
  }

  void declare(const Instruction& one) {
    std::string text =
        "  var " + globals_.name(one.result) + ": " + globals_.type(globals_.pointee(one.type));
    hoisted_ += text + ";\n";
    // A variable of a loop begins anew each time its block is entered, if it has a first value.
    if (one.words.size() > 4) line(globals_.name(one.result) + " = " + value(one[4]) + ";");
  }

  void declare_phi(const Instruction& one) {
    hoisted_ += "  var " + globals_.name(one.result) + ": " + globals_.type(one.type) + ";\n";
    text_[one.result] = globals_.name(one.result);
  }

  void chain(const Instruction& one) {
    std::string text = reference(one[3]);
    Id type = globals_.pointee(globals_.has(one[3]) ? globals_.at(one[3]).type : 0);
    for (std::size_t k = 4; k < one.words.size(); ++k) {
      const Instruction& t = globals_.at(type);
      if (t.opcode == spv::OpTypeStruct) {
        const std::uint32_t member = globals_.at(one[k])[3];
        text += "." + globals_.member(type, member);
        type = t[2 + member];
      } else {
        text += "[" + named(one[k]) + "]";
        type = t[2];
      }
    }
    references_[one.result] = text;
  }

  /// The value with a name of its own unless it is constant: a reference may be read more than
  /// once.
  std::string named(Id id) {
    if (pending_.contains(id)) {
      const std::string text = value(id);
      line("let " + globals_.name(id) + " = " + text + ";");
      text_[id] = globals_.name(id);
    }
    return value(id);
  }

  void call_function(const Instruction& one) {
    called_.insert(one[3]);
    std::string text = globals_.name(one[3]) + "(";
    for (std::size_t k = 4; k < one.words.size(); ++k) {
      const bool pointer = globals_.has(one[k]) && globals_.at(one[k]).type != 0 &&
                           globals_.at(globals_.at(one[k]).type).opcode == spv::OpTypePointer;
      text += (k > 4 ? ", " : "") + (pointer ? "&" + reference(one[k]) : value(one[k]));
    }
    flush();
    text += ")";
    if (globals_.at(one.type).opcode == spv::OpTypeVoid) return line(text + ";");
    if (uses_[one.result] == 0) return line("_ = " + text + ";");
    // A call is made where it stands.
    const bool hoist = elsewhere_.contains(one.result);
    if (hoist) {
      hoisted_ += "  var " + globals_.name(one.result) + ": " + globals_.type(one.type) + ";\n";
    }
    line((hoist ? "" : "let ") + globals_.name(one.result) + " = " + text + ";");
    text_[one.result] = globals_.name(one.result);
  }

  std::string expression(const Instruction& one) {
    if (const std::string_view binary = find(kBinary, one.opcode); !binary.empty())
      return binary_expression(one, binary);
    if (const std::string_view unary = find(kUnary, one.opcode); !unary.empty())
      return "(" + std::string(unary) + value(one[3]) + ")";
    switch (one.opcode) {
      case spv::OpLoad: return reference(one[3]);
      case spv::OpShiftLeftLogical: return shift(one, "<<");
      case spv::OpShiftRightLogical:
      case spv::OpShiftRightArithmetic: return shift(one, ">>");
      case spv::OpSelect:
        return "select(" + value(one[5]) + ", " + value(one[4]) + ", " + value(one[3]) + ")";
      case spv::OpBitcast: return bitcast(one);
      case spv::OpConvertFToS:
      case spv::OpConvertFToU:
      case spv::OpConvertSToF:
      case spv::OpConvertUToF: return globals_.type(one.type) + "(" + value(one[3]) + ")";
      case spv::OpCopyObject:
      case spv::OpCopyLogical: return value(one[3]);
      case spv::OpCompositeConstruct: return call(globals_.type(one.type), one, 3);
      case spv::OpCompositeExtract: return extract(one);
      case spv::OpVectorExtractDynamic: return value(one[3]) + "[" + value(one[4]) + "]";
      case spv::OpVectorShuffle: return shuffle(one);
      case spv::OpArrayLength: {
        const Id structure = globals_.pointee(globals_.at(one[3]).type);
        return "arrayLength(&" + reference(one[3]) + "." + globals_.member(structure, one[4]) + ")";
      }
      case spv::OpUMulExtended: return helper(one, "tg_mul_extended_", kMulExtended);
      case spv::OpIAddCarry: return helper(one, "tg_add_carry_", kAddCarry);
      case spv::OpISubBorrow: return helper(one, "tg_sub_borrow_", kSubBorrow);
      case spv::OpBitCount: return "countOneBits(" + value(one[3]) + ")";
      case spv::OpExtInst: {
        const std::string_view function = find(kExtended, one[4]);
        if (function.empty()) refuse("function " + std::to_string(one[4]) + " of GLSL");
        return extended(one, function);
      }
      default: break;
    }
    if (one.opcode >= spv::OpAtomicLoad && one.opcode <= spv::OpAtomicXor)
      refuse("atomics of this kernel; gather_recompute and gather_store sum without them");
    refuse("instruction " + std::to_string(one.opcode));
  }

  /// A constant that stands for NaN would be an error.
  std::string bitcast(const Instruction& one) {
    std::string text = value(one[3]);
    if (globals_.is_constant(one[3]) && globals_.type(one.type) == "f32" &&
        globals_.type(globals_.at(one[3]).type) == "u32")
      text += " | " + std::string(globals_.zero());
    return "bitcast<" + globals_.type(one.type) + ">(" + text + ")";
  }

  /// SPIR-V mixes signed and unsigned operands, WGSL does not.
  std::string as_type(Id id, Id type) {
    if (globals_.at(id).type == type) return value(id);
    return "bitcast<" + globals_.type(type) + ">(" + value(id) + ")";
  }

  std::string binary_expression(const Instruction& one, std::string_view sign) {
    const std::string text = plain_binary(one, sign);
    const bool integer = globals_.is_integer(one.type) || globals_.type(one.type) == "bool";
    return integer || !globals_.is_precise(one.result) ? text : rounded(one.type, text);
  }

  /// WGSL has no `precise`: (x + big) - big may become x. Each result passes through integers.
  std::string rounded(Id type, const std::string& text) {
    const std::string floats = globals_.type(type);
    std::string integers = floats, name = floats.substr(0, floats.find('<'));
    integers.replace(integers.find("f32"), 3, "u32");
    std::string helper(kRounded);
    for (const auto& [mark, with] :
         {std::pair{std::string("{N}"), name}, {"{F}", floats}, {"{U}", integers}}) {
      for (std::size_t at; (at = helper.find(mark)) != std::string::npos;)
        helper.replace(at, mark.size(), with);
    }
    globals_.zero();
    helpers_.insert(helper);
    return "tg_rounded_" + name + "(" + text + ")";
  }

  std::string plain_binary(const Instruction& one, std::string_view sign) {
    Id left = globals_.at(one[3]).type, right = globals_.at(one[4]).type;
    if (globals_.is_integer(one.type)) left = right = one.type;
    if (globals_.is_integer(left) && globals_.is_integer(right)) right = left;
    return "(" + as_type(one[3], left) + " " + std::string(sign) + " " + as_type(one[4], right) +
           ")";
  }

  std::string shift(const Instruction& one, std::string_view sign) {
    return "(" + as_type(one[3], one.type) + " " + std::string(sign) + " u32(" + value(one[4]) +
           "))";
  }

  std::string helper(const Instruction& one, const std::string& name, std::string_view text) {
    const std::string structure = globals_.type(one.type);
    std::string made(text);
    for (std::size_t at; (at = made.find("{S}")) != std::string::npos;)
      made.replace(at, 3, structure);
    helpers_.insert(made);
    return name + structure + "(" + value(one[3]) + ", " + value(one[4]) + ")";
  }

  /// The position of a bit has its operand's type in WGSL.
  std::string extended(const Instruction& one, std::string_view function) {
    std::string text = call(function, one, 5);
    const Id from = globals_.at(one[5]).type;
    if (from == one.type || !globals_.is_integer(one.type) || !globals_.is_integer(from))
      return text;
    return "bitcast<" + globals_.type(one.type) + ">(" + text + ")";
  }

  std::string extract(const Instruction& one) {
    std::string text = value(one[3]);
    Id type = globals_.at(one[3]).type;
    for (std::size_t k = 4; k < one.words.size(); ++k) {
      const Instruction& t = globals_.at(type);
      if (t.opcode == spv::OpTypeStruct) {
        text += "." + globals_.member(type, one[k]);
        type = t[2 + one[k]];
      } else {
        text += "[" + std::to_string(one[k]) + "]";
        type = t[2];
      }
    }
    return text;
  }

  std::string shuffle(const Instruction& one) {
    const std::uint32_t width = globals_.at(globals_.at(one[3]).type)[3];
    const std::string first = named(one[3]), second = one[4] == one[3] ? first : named(one[4]);
    std::string text = globals_.type(one.type) + "(";
    for (std::size_t k = 5; k < one.words.size(); ++k) {
      const std::uint32_t from = one[k];
      text += (k > 5 ? ", " : "") + (from < width ? first : second) + "[" +
              std::to_string(from < width ? from : from - width) + "]";
    }
    return text + ")";
  }

  /// Where a branch leads without another statement, and by break and continue.
  struct Around {
    Id next = 0, loop_merge = 0, loop_continue = 0, header = 0;
  };

  void copy_phis(Id from, Id to) {
    std::vector<std::pair<std::string, std::string>> copies;
    for (const Instruction* one : blocks_.at(to).body) {
      if (one->opcode != spv::OpPhi) continue;
      for (std::size_t k = 3; k + 1 < one->words.size(); k += 2) {
        if ((*one)[k + 1] == from)
          copies.emplace_back(globals_.name(one->result), value((*one)[k]));
      }
    }
    if (copies.size() == 1) return line(copies[0].first + " = " + copies[0].second + ";");
    // All are read before one is written.
    for (auto& [to_name, text] : copies) {
      const std::string name = "phi_" + std::to_string(next_phi_++);
      line("let " + name + " = " + text + ";");
      text = name;
    }
    for (const auto& [to_name, text] : copies) line(to_name + " = " + text + ";");
  }

  void branch(Id from, Id to) {
    copy_phis(from, to);
    if (to == around_.next || to == around_.header) return;
    if (to == around_.loop_merge) return line("break;");
    if (to == around_.loop_continue) return line("continue;");
    emit_block(to);
  }

  void emit_block(Id label) {
    const Block& block = blocks_.at(label);
    if (block.merge != nullptr && block.merge->opcode == spv::OpLoopMerge)
      return emit_loop(label, block);
    emit_body(block);
    emit_end(label, block);
  }

  void emit_body(const Block& block) {
    for (const Instruction* one : block.body) emit(*one);
  }

  void emit_loop(Id label, const Block& block) {
    const Around outside = around_;
    const Id merge = (*block.merge)[1], next = (*block.merge)[2];
    flush();
    line("loop {");
    ++depth_;
    around_ = {
        .next = next == label ? 0 : next, .loop_merge = merge, .loop_continue = next, .header = 0};
    if (next == label) {
      around_.header = label;
      around_.loop_continue = 0;
    }
    emit_body(block);
    emit_end(label, block);
    if (next != label) emit_continuing(label, next, merge);
    --depth_;
    line("}");
    around_ = outside;
    branch_to_merge(merge);
  }

  void emit_continuing(Id header, Id next, Id merge) {
    line("continuing {");
    ++depth_;
    around_ = {.next = 0, .loop_merge = merge, .loop_continue = 0, .header = header};
    emit_block(next);
    --depth_;
    line("}");
  }

  /// Goes on after a construct, whose branches have copied what its phis read.
  void branch_to_merge(Id merge) {
    if (merge == around_.next || merge == around_.header) return;
    if (merge == around_.loop_merge) return line("break;");
    if (merge == around_.loop_continue) return line("continue;");
    emit_block(merge);
  }

  void emit_end(Id label, const Block& block) {
    const Instruction& end = *block.end;
    switch (end.opcode) {
      case spv::OpBranch: flush(); return branch(label, end[1]);
      case spv::OpReturn: flush(); return line("return;");
      case spv::OpReturnValue: {
        const std::string text = value(end[1]);
        flush();
        return line("return " + text + ";");
      }
      case spv::OpUnreachable: return;
      default: break;
    }
    const std::string condition = value(end[1]);
    flush();
    // In a continuing part the last statement decides about another round.
    if (around_.header != 0 && around_.loop_continue == 0 &&
        (end[2] == around_.header || end[3] == around_.header) &&
        (end[2] == around_.loop_merge || end[3] == around_.loop_merge)) {
      copy_phis(label, around_.header);
      return line(end[2] == around_.loop_merge ? "break if " + condition + ";"
                                               : "break if !(" + condition + ");");
    }
    const bool selection = block.merge != nullptr && block.merge->opcode == spv::OpSelectionMerge;
    const Around outside = around_;
    if (selection) around_.next = (*block.merge)[1];
    line("if (" + condition + ") {");
    ++depth_;
    branch(label, end[2]);
    --depth_;
    const std::string before = std::exchange(body_, std::string());
    ++depth_;
    branch(label, end[3]);
    --depth_;
    const std::string otherwise = std::exchange(body_, before);
    if (!otherwise.empty()) {
      line("} else {");
      body_ += otherwise;
    }
    line("}");
    around_ = outside;
    if (selection) branch_to_merge((*block.merge)[1]);
  }

  Globals& globals_;
  std::set<std::string>& helpers_;
  const Instruction& function_;
  std::vector<const Instruction*> parameters_;
  std::map<Id, Block> blocks_;
  Id first_ = 0, label_ = 0;
  std::map<Id, Id> home_;  // the block of each result
  std::map<Id, std::uint32_t> uses_;
  std::set<Id> elsewhere_, called_;
  std::map<Id, std::string> text_, references_, pending_;
  std::vector<Id> order_;  // pending results, in order
  Around around_;
  std::string hoisted_, body_;
  int depth_ = 1, next_phi_ = 0;
};

/// Declarations of variables outside functions.
struct Variables {
  std::string text, arguments;
  std::string copies;  ///< statements at the start of the entry point
};

/// Ids that functions other than the entry point read.
std::set<Id> used_by_functions(const std::vector<Instruction>& module, Id entry) {
  std::set<Id> out;
  bool inside = false;
  for (const Instruction& one : module) {
    if (one.opcode == spv::OpFunction) inside = one.result != entry;
    if (!inside) continue;
    for (const std::uint16_t at : one.ids) out.insert(one[at]);
  }
  return out;
}

/// A built-in as an argument of the entry point; functions read it from a private variable.
void declare_input(const Instruction& one, Globals& globals, bool shared, Variables& out) {
  const std::string name = globals.name(one.result);
  const std::uint32_t number = globals.decoration(one.result, spv::DecorationBuiltIn, ~0u);
  const auto* built_in = std::ranges::find(kBuiltIns, number, &BuiltIn::number);
  if (built_in == kBuiltIns.end()) refuse("built-in " + std::to_string(number));
  const std::string argument = shared ? name + "in" : name, type(built_in->type);
  out.arguments += (out.arguments.empty() ? "" : ", ") + std::string("@builtin(") +
                   std::string(built_in->attribute) + ") " + argument + ": " + type;
  if (!shared) return;
  out.text += "var<private> " + name + ": " + type + ";\n";
  out.copies += "  " + name + " = " + argument + ";\n";
}

std::string declare_buffer(const Instruction& one, Globals& globals, Id type) {
  const auto number = [&](std::uint32_t kind) {
    return std::to_string(globals.decoration(one.result, kind, 0));
  };
  std::string_view kind = "storage, read_write";
  if (one[3] == spv::StorageClassUniform)
    kind = "uniform";
  else if (globals.is_read_only(one.result, type))
    kind = "storage, read";
  return "@group(" + number(spv::DecorationDescriptorSet) + ") @binding(" +
         number(spv::DecorationBinding) + ") var<" + std::string(kind) + "> " +
         globals.name(one.result) + ": " + globals.type(type) + ";\n";
}

Variables declare(const std::vector<Instruction>& module, Globals& globals) {
  Variables out;
  const std::set<Id> shared = used_by_functions(module, globals.entry());
  for (const Instruction& one : module) {
    if (one.opcode == spv::OpFunction) break;
    if (one.opcode != spv::OpVariable) continue;
    const Id type = globals.pointee(one.type);
    const std::string name = globals.name(one.result);
    switch (one[3]) {
      case spv::StorageClassInput:
        declare_input(one, globals, shared.contains(one.result), out);
        break;
      case spv::StorageClassPushConstant:
        out.text +=
            "@group(1) @binding(0) var<uniform> " + name + ": " + globals.type(type) + ";\n";
        break;
      case spv::StorageClassStorageBuffer:
      case spv::StorageClassUniform: out.text += declare_buffer(one, globals, type); break;
      default:
        out.text += one[3] == spv::StorageClassWorkgroup ? "var<workgroup> " : "var<private> ";
        out.text += name + ": " + globals.type(type);
        if (one.words.size() > 4) out.text += " = " + globals.constant(one[4]);
        out.text += ";\n";
    }
  }
  return out;
}

/// The statement that makes tg_zero: a dispatch has at most 65,535 workgroups. Adds what it reads
/// to the arguments.
std::string set_zero(std::string& arguments) {
  constexpr std::string_view kAttribute = "@builtin(num_workgroups) ";
  std::string name = "tg_groups";
  if (const std::size_t at = arguments.find(kAttribute); at != std::string::npos) {
    const std::size_t from = at + kAttribute.size();
    name = arguments.substr(from, arguments.find(':', from) - from);
  } else {
    arguments += (arguments.empty() ? "" : ", ") + std::string(kAttribute) + name + ": vec3<u32>";
  }
  return "  tg_zero = " + name + "[0] >> 16u;\n";
}

}  // namespace

std::string wgsl(std::span<const std::uint32_t> words) {
  const std::vector<std::uint32_t> emulated = emulate_float64(words);
  const std::vector<Instruction> module = parse(emulated);
  Globals globals(module);
  const Variables variables = declare(module, globals);
  std::set<std::string> helpers;
  std::string functions, main;
  for (std::size_t k = 0; k < module.size(); ++k) {
    if (module[k].opcode != spv::OpFunction) continue;
    std::size_t end = k;
    while (module[end].opcode != spv::OpFunctionEnd) ++end;
    const bool is_entry = module[k].result == globals.entry();
    FunctionWriter writer(globals, helpers, std::span(module).subspan(k, end - k));
    if (is_entry) {
      main = writer.write_body();
    } else {
      functions += "\n" + writer.write();
    }
    k = end;
  }
  std::string arguments = variables.arguments, first = variables.copies;
  if (globals.needs_zero()) first = set_zero(arguments) + first;
  const auto size = globals.size();
  main = "\n@compute @workgroup_size(" + std::to_string(size[0]) + ", " + std::to_string(size[1]) +
         ", " + std::to_string(size[2]) + ")\nfn main(" + arguments + ") {\n" + first + main +
         "}\n";
  std::string text = globals.structures() + "\n";
  if (globals.needs_zero()) text += "var<private> tg_zero: u32;\n";
  text += variables.text;
  for (const std::string& helper : helpers) text += "\n" + helper;
  return text + functions + main;
}

}  // namespace topograd::codegen
