// Replaces the 64-bit float type of a module, and links the functions that its operations need.
#include "edit_modules.hpp"

#include <spirv-tools/libspirv.h>

#include <spirv_cross/GLSL.std.450.h>
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "../../ir/error.hpp"
#include "../math/library.hpp"
#include "shader_compiler.hpp"

namespace topograd::codegen {
namespace {

using Words = std::vector<std::uint32_t>;
using Id = std::uint32_t;

/// An instruction and the positions of ids in its words.
struct Instruction {
  std::uint32_t opcode = 0;
  Words words;
  std::vector<std::uint16_t> ids;
  Id type = 0, result = 0;
};

Instruction make(spv::Op op, std::initializer_list<std::uint32_t> operands) {
  Instruction out{.opcode = op, .words = {static_cast<std::uint32_t>(op)}, .ids = {}};
  out.words.insert(out.words.end(), operands);
  return out;
}

/// A module by sections of its layout.
struct Parsed {
  Words header;
  std::vector<Instruction> before, annotations, types, functions;
  std::unordered_map<Id, Id> type_of;  // of results
};

bool is_annotation(std::uint32_t op) {
  return op == spv::OpDecorate || op == spv::OpMemberDecorate || op == spv::OpDecorationGroup ||
         op == spv::OpGroupDecorate || op == spv::OpGroupMemberDecorate || op == spv::OpDecorateId;
}

bool is_first_part(std::uint32_t op) {
  switch (op) {
    case spv::OpCapability:
    case spv::OpExtension:
    case spv::OpExtInstImport:
    case spv::OpMemoryModel:
    case spv::OpEntryPoint:
    case spv::OpExecutionMode:
    case spv::OpExecutionModeId:
    case spv::OpString:
    case spv::OpSource:
    case spv::OpSourceContinued:
    case spv::OpSourceExtension:
    case spv::OpName:
    case spv::OpMemberName:
    case spv::OpModuleProcessed: return true;
    default: return false;
  }
}

bool is_id(spv_operand_type_t type) {
  return type == SPV_OPERAND_TYPE_ID || type == SPV_OPERAND_TYPE_TYPE_ID ||
         type == SPV_OPERAND_TYPE_RESULT_ID || type == SPV_OPERAND_TYPE_MEMORY_SEMANTICS_ID ||
         type == SPV_OPERAND_TYPE_SCOPE_ID;
}

spv_result_t add_instruction(void* data, const spv_parsed_instruction_t* parsed) {
  auto& out = *static_cast<Parsed*>(data);
  Instruction one{.opcode = parsed->opcode,
                  .words = {parsed->words, parsed->words + parsed->num_words},
                  .ids = {},
                  .type = parsed->type_id,
                  .result = parsed->result_id};
  for (std::uint16_t k = 0; k < parsed->num_operands; ++k)
    if (is_id(parsed->operands[k].type)) one.ids.push_back(parsed->operands[k].offset);
  if (one.type != 0) out.type_of[one.result] = one.type;
  if (is_first_part(one.opcode)) {
    out.before.push_back(std::move(one));
  } else if (is_annotation(one.opcode)) {
    out.annotations.push_back(std::move(one));
  } else if (one.opcode == spv::OpFunction || !out.functions.empty()) {
    out.functions.push_back(std::move(one));
  } else {
    out.types.push_back(std::move(one));
  }
  return SPV_SUCCESS;
}

Parsed parse(std::span<const std::uint32_t> module) {
  Parsed out;
  const std::unique_ptr<spv_context_t, decltype(&spvContextDestroy)> context(
      spvContextCreate(SPV_ENV_VULKAN_1_2), &spvContextDestroy);
  if (!looks_like_spirv(module) ||
      spvBinaryParse(context.get(), &out, module.data(), module.size(), nullptr, add_instruction,
                     nullptr) != SPV_SUCCESS) {
    throw Error(ErrorCode::InvalidArgument,
                "emulate_float64: expected a whole SPIR-V module, got " +
                    std::to_string(module.size()) + " words that are none");
  }
  out.header.assign(module.begin(), module.begin() + kSpirvHeaderWords);
  return out;
}

/// A function of the library.
struct LibraryFunction {
  std::vector<const Instruction*> body;
  std::string name;
};

/// The library of codegen/math/emulated as SPIR-V, compiled once.
struct Library {
  Parsed module;
  std::map<Id, LibraryFunction> functions;
  std::map<std::string, Id, std::less<>> by_name;
  std::map<Id, const Instruction*> globals;  // types and constants
  Id imported = 0;                           // GLSL.std.450

  Library() : module(parse(compile(source()))) {
    std::map<Id, std::string> names;
    for (const Instruction& one : module.before) {
      if (one.opcode == spv::OpName)
        names[one.words[1]] = literal_string(std::span(one.words).subspan(2));
      if (one.opcode == spv::OpExtInstImport) imported = one.result;
    }
    for (const Instruction& one : module.types) globals[one.result] = &one;
    LibraryFunction* open = nullptr;
    for (const Instruction& one : module.functions) {
      if (one.opcode == spv::OpFunction) {
        open = &functions[one.result];
        const std::string& name = names[one.result];
        open->name = name.substr(0, name.find('('));
        by_name[open->name] = one.result;
      }
      open->body.push_back(&one);
    }
  }

  static ShaderSource source() {
    return {.name = "float64",
            .glsl =
                "#version 450\nlayout(local_size_x = 1) in;\n"
                "layout(std430, set = 0, binding = 0) buffer Numbers { uvec2 v[]; };\n" +
                std::string(math::emulated_float64()),
            .includes = {}};
  }
};

const Library& library() {
  static const Library& only = *new Library;
  return only;
}

/// Emulations of instructions: of their operands, component by component.
const std::map<std::uint32_t, std::string_view> kFunctions = {
    {spv::OpFAdd, "f64_add"},
    {spv::OpFSub, "f64_sub"},
    {spv::OpFMul, "f64_mul"},
    {spv::OpFDiv, "f64_div"},
    {spv::OpFMod, "f64_mod"},
    {spv::OpFNegate, "f64_neg"},
    {spv::OpVectorTimesScalar, "f64_mul"},
    {spv::OpIsNan, "f64_is_nan"},
    {spv::OpIsInf, "f64_is_inf"},
    {spv::OpConvertFToU, "f64_to_uint"},
    {spv::OpConvertFToS, "f64_to_int"},
    {spv::OpConvertSToF, "f64_from_int"},
    {spv::OpConvertUToF, "f64_from_uint"},
};

/// Emulations of the extended instructions of GLSL.
const std::map<std::uint32_t, std::string_view> kExtended = {
    {GLSLstd450FAbs, "f64_abs"},
    {GLSLstd450FSign, "f64_sign"},
    {GLSLstd450Floor, "f64_floor"},
    {GLSLstd450Ceil, "f64_ceil"},
    {GLSLstd450Trunc, "f64_trunc"},
    {GLSLstd450Round, "f64_round_even"},
    {GLSLstd450RoundEven, "f64_round_even"},
    {GLSLstd450Fract, "f64_fract"},
    {GLSLstd450Sqrt, "f64_sqrt"},
    {GLSLstd450InverseSqrt, "f64_rsqrt"},
    {GLSLstd450FMin, "f64_min"},
    {GLSLstd450FMax, "f64_max"},
    {GLSLstd450NMin, "f64_number_min"},
    {GLSLstd450NMax, "f64_number_max"},
    {GLSLstd450Fma, "f64_fma"},
    {GLSLstd450FClamp, "f64_clamp"},
    {GLSLstd450FMix, "f64_mix"},
    {GLSLstd450Step, "f64_step"},
};

/// A comparison: a function of (a, b) or (b, a), perhaps negated.
struct Comparison {
  std::string_view function;
  bool swapped = false, negated = false;
};
const std::map<std::uint32_t, Comparison> kComparisons = {
    {spv::OpFOrdEqual, {"f64_equal"}},
    {spv::OpFUnordNotEqual, {"f64_equal", false, true}},
    {spv::OpFOrdNotEqual, {"f64_ordered_unequal"}},
    {spv::OpFUnordEqual, {"f64_ordered_unequal", false, true}},
    {spv::OpFOrdLessThan, {"f64_less"}},
    {spv::OpFOrdGreaterThan, {"f64_less", true}},
    {spv::OpFOrdLessThanEqual, {"f64_less_equal"}},
    {spv::OpFOrdGreaterThanEqual, {"f64_less_equal", true}},
    {spv::OpFUnordLessThan, {"f64_less_equal", true, true}},
    {spv::OpFUnordGreaterThan, {"f64_less_equal", false, true}},
    {spv::OpFUnordLessThanEqual, {"f64_less", true, true}},
    {spv::OpFUnordGreaterThanEqual, {"f64_less", false, true}},
};

/// Types that a module may have only once.
bool is_unique_type(std::uint32_t op) {
  return (op >= spv::OpTypeVoid && op <= spv::OpTypeSampledImage) || op == spv::OpTypePointer ||
         op == spv::OpTypeFunction;
}

class Emulation {
 public:
  explicit Emulation(std::span<const std::uint32_t> module)
      : module_(parse(module)), bound_(module_.header[3]) {}

  bool needed() {
    for (const Instruction& one : module_.types)
      if (one.opcode == spv::OpTypeFloat && one.words[2] == 64) double_ = one.result;
    return double_ != 0;
  }

  Words write() {
    survey();
    write_types();
    for (const Instruction& one : module_.functions) body_instruction(one);
    link();
    return assemble();
  }

 private:
  // ids and declarations

  Id fresh() { return bound_++; }

  Id renamed(Id id) const {
    const auto found = renames_.find(id);
    return found == renames_.end() ? id : found->second;
  }

  void emit(Words& out, Instruction one) const {
    for (const std::uint16_t at : one.ids) one.words[at] = renamed(one.words[at]);
    emit_as_is(out, one);
  }
  static void emit_as_is(Words& out, Instruction one) {
    one.words[0] = static_cast<std::uint32_t>(one.words.size() << 16) | one.opcode;
    out.insert(out.end(), one.words.begin(), one.words.end());
  }

  /// Key of a type: its words without the result.
  static Words key_of(const Instruction& one) {
    Words key = {one.opcode};
    key.insert(key.end(), one.words.begin() + 2, one.words.end());
    return key;
  }

  /// The id of a type with these operands, which is declared where there is none.
  Id declared(spv::Op op, std::initializer_list<std::uint32_t> operands) {
    Words key = {static_cast<std::uint32_t>(op)};
    key.insert(key.end(), operands);
    Id& id = declared_[key];
    if (id == 0) {
      const auto given = given_.find(key);
      id = given == given_.end() ? fresh() : given->second;
      Instruction one = make(op, {id});
      one.words.insert(one.words.end(), operands);
      emit_as_is(types_, one);
    }
    return id;
  }

  Id constant(Id type, std::uint32_t value) {
    Id& id = constants_[{type, value}];
    if (id == 0) emit_as_is(types_, make(spv::OpConstant, {type, id = fresh(), value}));
    return id;
  }

  void survey() {
    for (const Instruction& one : module_.types) {
      if (is_unique_type(one.opcode)) given_[key_of(one)] = one.result;
      if (one.opcode == spv::OpTypeVector && one.words[2] == double_)
        lanes_[one.result] = one.words[3];
      if (one.opcode == spv::OpTypeMatrix && lanes_.contains(one.words[2]))
        refuse("a matrix of doubles");
      if (one.opcode == spv::OpTypeInt && one.words[2] == 64) wide_.insert(one.result);
      if (one.opcode == spv::OpTypeVector) vector_lanes_[one.result] = one.words[3];
    }
    for (const Instruction& one : module_.before)
      if (one.opcode == spv::OpExtInstImport) imported_ = one.result;
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorCode::Unsupported, "emulated float64: expected no " + what +
                                            " in the kernel; use precision f32, or backend cpu");
  }

  void write_types() {
    // Types of integers come first: the pair stands where the double did.
    uint_ = declared(spv::OpTypeInt, {32, 0});
    pair_ = declared(spv::OpTypeVector, {uint_, 2});
    bool_ = declared(spv::OpTypeBool, {});
    renames_[double_] = pair_;
    for (const Instruction& one : module_.types) type_instruction(one);
    float_ = declared(spv::OpTypeFloat, {32});
    int_ = declared(spv::OpTypeInt, {32, 1});
  }

  void type_instruction(const Instruction& one) {
    if (one.result == double_) return;
    if (const auto lanes = lanes_.find(one.result); lanes != lanes_.end()) {
      const Id count = constant(uint_, lanes->second);
      emit_as_is(types_, make(spv::OpTypeArray, {one.result, pair_, count}));
      return;
    }
    if (one.opcode == spv::OpConstant && one.type == double_) {
      const Id low = constant(uint_, one.words[3]), high = constant(uint_, one.words[4]);
      emit_as_is(types_, make(spv::OpConstantComposite, {pair_, one.result, low, high}));
      return;
    }
    if ((one.opcode == spv::OpSpecConstant || one.opcode == spv::OpSpecConstantOp) &&
        is_double(one.type)) {
      refuse("specialization constant of type double");
    }
    if (!is_unique_type(one.opcode)) {
      emit(types_, one);
      return;
    }
    Instruction with = one;
    for (const std::uint16_t at : with.ids) with.words[at] = renamed(with.words[at]);
    Id& there = declared_[key_of(with)];
    if (there == 0) {
      there = one.result;
      emit_as_is(types_, with);
    } else if (there != one.result) {
      renames_[one.result] = there;
    }
  }

  // instructions of functions

  bool is_double(Id type) const { return type == double_ || lanes_.contains(type); }
  Id type_of(Id id) const {
    const auto found = module_.type_of.find(id);
    return found == module_.type_of.end() ? 0 : found->second;
  }
  std::uint32_t lanes_of(Id type) const {
    const auto found = vector_lanes_.find(type);
    return found == vector_lanes_.end() ? 1 : found->second;
  }

  void put(spv::Op op, std::initializer_list<std::uint32_t> operands) {
    emit_as_is(code_, make(op, operands));
  }

  Id function(std::string_view name) {
    const auto found = library().by_name.find(name);
    if (found == library().by_name.end()) refuse(std::string(name));
    Id& id = linked_[found->second];
    if (id == 0) id = fresh();
    return id;
  }

  Id component(Id value, std::uint32_t lane) {
    const Id type = type_of(value), lanes = lanes_of(type);
    if (lanes == 1) return value;
    const Id out = fresh();
    put(spv::OpCompositeExtract, {renamed(component_type(type)), out, value, lane});
    return out;
  }

  Id component_type(Id vector) const {
    for (const Instruction& one : module_.types)
      if (one.result == vector) return one.words[2];
    return 0;
  }

  Id call(std::string_view name, Id type, std::span<const Id> arguments, Id result = 0) {
    if (result == 0) result = fresh();
    Instruction one = make(spv::OpFunctionCall, {type, result, function(name)});
    one.words.insert(one.words.end(), arguments.begin(), arguments.end());
    emit_as_is(code_, one);
    changed_.insert(result);
    return result;
  }

  /// Calls `each(lane, result)` once for a scalar, or for each component, of which it then makes
  /// the result.
  template <class Each>
  void by_lane(const Instruction& one, Each&& each) {
    const std::uint32_t lanes = lanes_of(one.type);
    if (lanes == 1) {
      each(0u, one.result);
      return;
    }
    Instruction whole = make(spv::OpCompositeConstruct, {renamed(one.type), one.result});
    for (std::uint32_t k = 0; k < lanes; ++k) {
      const Id part = fresh();
      each(k, part);
      whole.words.push_back(part);
    }
    emit_as_is(code_, whole);
    changed_.insert(one.result);
  }

  /// The operation of an instruction whose operands begin at word `from`.
  void call_by_lane(const Instruction& one, std::string_view name, std::size_t from) {
    const Id scalar = lanes_of(one.type) == 1 ? one.type : component_type(one.type);
    by_lane(one, [&](std::uint32_t lane, Id result) {
      std::vector<Id> arguments;
      for (std::size_t k = from; k < one.words.size(); ++k)
        arguments.push_back(component(one.words[k], lane));
      call(name, renamed(scalar), arguments, result);
    });
  }

  bool touches_double(const Instruction& one) const {
    if (is_double(one.type)) return true;
    return std::ranges::any_of(one.ids,
                               [&](std::uint16_t at) { return is_double(type_of(one.words[at])); });
  }

  void body_instruction(const Instruction& one) {
    if (!touches_double(one)) {
      emit(code_, one);
      return;
    }
    if (const auto known = kComparisons.find(one.opcode); known != kComparisons.end()) {
      comparison(one, known->second);
    } else if (one.opcode == spv::OpExtInst && one.words[3] == imported_) {
      extended(one);
    } else if (is_conversion(one.opcode)) {
      conversion(one);
    } else if (one.opcode == spv::OpFMul && is_of_floats(one)) {
      float_product(one);
    } else if (const auto found = kFunctions.find(one.opcode); found != kFunctions.end()) {
      call_by_lane(one, found->second, 3);
    } else if (one.opcode == spv::OpDot) {
      dot(one);
    } else if (lanes_.contains(one.type)) {
      vector_instruction(one);
    } else {
      scalar_instruction(one);
    }
  }

  void comparison(const Instruction& one, const Comparison& what) {
    by_lane(one, [&](std::uint32_t lane, Id result) {
      const Id a = component(one.words[3], lane), b = component(one.words[4], lane);
      const std::array<Id, 2> arguments = {what.swapped ? b : a, what.swapped ? a : b};
      const Id holds = call(what.function, bool_, arguments, what.negated ? 0 : result);
      if (what.negated) put(spv::OpLogicalNot, {bool_, result, holds});
      changed_.insert(result);
    });
  }

  void extended(const Instruction& one) {
    const std::uint32_t what = one.words[4];
    if (what == GLSLstd450PackDouble2x32 || what == GLSLstd450UnpackDouble2x32) {
      put(spv::OpCopyObject, {pair_, one.result, one.words[5]});
      return;
    }
    const auto found = kExtended.find(what);
    if (found == kExtended.end())
      refuse("built-in function " + std::to_string(what) + " of GLSL.std.450 on doubles");
    call_by_lane(one, found->second, 5);
  }

  static bool is_conversion(std::uint32_t op) {
    return op == spv::OpFConvert || op == spv::OpConvertFToU || op == spv::OpConvertFToS ||
           op == spv::OpConvertSToF || op == spv::OpConvertUToF;
  }

  void conversion(const Instruction& one) {
    const Id from = lanes_of(type_of(one.words[3])) == 1 ? type_of(one.words[3])
                                                         : component_type(type_of(one.words[3]));
    const Id to = lanes_of(one.type) == 1 ? one.type : component_type(one.type);
    if (one.opcode != spv::OpFConvert) {
      const Id integer = to == double_ ? from : to;
      if (wide_.contains(integer)) {
        wide_conversion(one, integer);
      } else {
        call_by_lane(one, kFunctions.at(one.opcode), 3);
      }
      return;
    }
    if (to == double_) floats_[one.result] = one.words[3];
    by_lane(one, [&](std::uint32_t lane, Id result) {
      if (to == double_) {
        const Id bits = float_bits(one.words[3], lane);
        call("f64_from_float", pair_, std::span(&bits, 1), result);
      } else {
        const Id value = component(one.words[3], lane), bits = fresh();
        call("f64_to_float", uint_, std::span(&value, 1), bits);
        put(spv::OpBitcast, {renamed(to), result, bits});
        changed_.insert(result);
      }
    });
  }

  Id float_bits(Id value, std::uint32_t lane) {
    const Id number = component(value, lane), bits = fresh();
    put(spv::OpBitcast, {uint_, bits, number});
    return bits;
  }

  /// Both operands were floats: their product needs no rounding.
  bool is_of_floats(const Instruction& one) const {
    return floats_.contains(one.words[3]) && floats_.contains(one.words[4]);
  }

  void float_product(const Instruction& one) {
    by_lane(one, [&](std::uint32_t lane, Id result) {
      const std::array<Id, 2> bits = {float_bits(floats_.at(one.words[3]), lane),
                                      float_bits(floats_.at(one.words[4]), lane)};
      call("f64_float_product", pair_, bits, result);
    });
  }

  void wide_conversion(const Instruction& one, Id integer) {
    if (lanes_of(one.type) != 1) refuse("conversion of vectors of 64-bit integers");
    const bool is_signed = one.opcode == spv::OpConvertSToF || one.opcode == spv::OpConvertFToS;
    const Id value = one.words[3], pair = fresh();
    changed_.insert(one.result);
    if (one.type == double_) {
      put(spv::OpBitcast, {pair_, pair, value});
      call(is_signed ? "f64_from_int64" : "f64_from_uint64", pair_, std::span(&pair, 1),
           one.result);
    } else {
      call(is_signed ? "f64_to_int64" : "f64_to_uint64", pair_, std::span(&value, 1), pair);
      put(spv::OpBitcast, {renamed(integer), one.result, pair});
    }
  }

  void dot(const Instruction& one) {
    const std::uint32_t lanes = lanes_of(type_of(one.words[3]));
    Id sum = 0;
    for (std::uint32_t k = 0; k < lanes; ++k) {
      const std::array<Id, 2> factors = {component(one.words[3], k), component(one.words[4], k)};
      const Id product = call("f64_mul", pair_, factors);
      const std::array<Id, 2> terms = {sum, product};
      sum = k == 0 ? product : call("f64_add", pair_, terms, k + 1 == lanes ? one.result : 0);
    }
  }

  /// Instructions of vectors that are arrays now.
  void vector_instruction(const Instruction& one) {
    std::vector<Id> parts;
    if (one.opcode == spv::OpCompositeConstruct) {
      for (std::size_t k = 3; k < one.words.size(); ++k)
        for (std::uint32_t lane = 0; lane < lanes_of(type_of(one.words[k])); ++lane)
          parts.push_back(component(one.words[k], lane));
    } else if (one.opcode == spv::OpVectorShuffle) {
      const std::uint32_t first = lanes_of(type_of(one.words[3]));
      for (std::size_t k = 5; k < one.words.size(); ++k) {
        const std::uint32_t lane = one.words[k] == ~0u ? 0 : one.words[k];
        parts.push_back(lane < first ? component(one.words[3], lane)
                                     : component(one.words[4], lane - first));
      }
    } else if (one.opcode == spv::OpSelect && lanes_of(type_of(one.words[3])) > 1) {
      for (std::uint32_t lane = 0; lane < lanes_of(one.type); ++lane) {
        const Id part = fresh(), condition = component(one.words[3], lane);
        put(spv::OpSelect,
            {pair_, part, condition, component(one.words[4], lane), component(one.words[5], lane)});
        parts.push_back(part);
      }
    } else {
      scalar_instruction(one);
      return;
    }
    Instruction whole = make(spv::OpCompositeConstruct, {one.type, one.result});
    whole.words.insert(whole.words.end(), parts.begin(), parts.end());
    emit_as_is(code_, whole);
  }

  /// Instructions that are the same for pairs, and those that have no emulation.
  void scalar_instruction(const Instruction& one) {
    switch (one.opcode) {
      case spv::OpBitcast: {
        const bool same = renamed(one.type) == renamed(type_of(one.words[3]));
        if (!same) break;
        put(spv::OpCopyObject, {renamed(one.type), one.result, one.words[3]});
        return;
      }
      case spv::OpFRem: refuse("remainder of doubles");
      case spv::OpQuantizeToF16: refuse("16-bit floats from doubles");
      case spv::OpVectorExtractDynamic:
      case spv::OpVectorInsertDynamic: refuse("computed component of a vector of doubles");
      case spv::OpAtomicFAddEXT:
      case spv::OpAtomicExchange:
      case spv::OpAtomicLoad:
      case spv::OpAtomicStore: refuse("atomic operation on doubles");
      default: break;
    }
    if (one.opcode >= spv::OpGroupNonUniformFAdd && one.opcode <= spv::OpGroupNonUniformFMax &&
        is_double(one.type)) {
      refuse("subgroup arithmetic on doubles");
    }
    if (one.opcode == spv::OpGroupNonUniformFMul || one.opcode == spv::OpGroupNonUniformFMin)
      refuse("subgroup arithmetic on doubles");
    emit(code_, one);
  }

  // the library

  void link() {
    // Functions of the library that others call are found while their bodies are copied.
    std::set<Id> done;
    while (true) {
      const auto next = std::ranges::find_if(
          linked_, [&](const auto& entry) { return !done.contains(entry.first); });
      if (next == linked_.end()) return;
      done.insert(next->first);
      for (const Instruction* one : library().functions.at(next->first).body)
        linked_instruction(*one);
    }
  }

  void linked_instruction(const Instruction& one) {
    if (one.opcode == spv::OpFunction) locals_.clear();
    Instruction copy = one;
    for (const std::uint16_t at : copy.ids) copy.words[at] = linked(copy.words[at]);
    emit_as_is(code_, copy);
  }

  Id linked(Id id) {
    if (id == library().imported) {
      if (imported_ == 0) imported_ = added_import_ = fresh();
      return imported_;
    }
    if (library().functions.contains(id)) {
      Id& to = linked_[id];
      if (to == 0) to = fresh();
      return to;
    }
    if (const auto global = library().globals.find(id); global != library().globals.end())
      return linked_global(*global->second);
    Id& to = locals_[id];
    if (to == 0) to = fresh();
    return to;
  }

  Id linked_global(const Instruction& one) {
    if (const auto there = globals_.find(one.result); there != globals_.end()) return there->second;
    Instruction copy = one;
    for (const std::uint16_t at : copy.ids)
      if (copy.words[at] != one.result) copy.words[at] = linked(copy.words[at]);
    Id id = 0;
    if (is_unique_type(one.opcode)) {
      Id& there = declared_[key_of(copy)];
      if (there != 0) return globals_[one.result] = there;
      id = there = fresh();
    } else {
      id = fresh();
    }
    copy.words[one.type != 0 ? 2 : 1] = id;
    emit_as_is(types_, copy);
    return globals_[one.result] = id;
  }

  // the module

  Words assemble() const {
    Words out = module_.header;
    out[3] = bound_;
    for (const Instruction& one : module_.before) {
      if (one.opcode == spv::OpCapability && one.words[1] == spv::CapabilityFloat64) continue;
      if (one.opcode == spv::OpExecutionMode && is_mode_of_doubles(one)) continue;
      if (one.opcode == spv::OpMemoryModel && added_import_ != 0) import(out);
      emit_as_is(out, one);
    }
    for (const Instruction& one : module_.annotations) {
      const bool arithmetic =
          one.opcode == spv::OpDecorate && one.words[2] == spv::DecorationNoContraction;
      if (arithmetic && (changed_.contains(one.words[1]) || is_double(type_of(one.words[1]))))
        continue;
      emit_as_is(out, one);
    }
    out.insert(out.end(), types_.begin(), types_.end());
    out.insert(out.end(), code_.begin(), code_.end());
    return out;
  }

  static bool is_mode_of_doubles(const Instruction& one) {
    const std::uint32_t mode = one.words[2];
    return one.words.size() > 3 && one.words[3] == 64 && mode >= spv::ExecutionModeDenormPreserve &&
           mode <= spv::ExecutionModeRoundingModeRTZ;
  }

  void import(Words& out) const {
    Instruction one = make(spv::OpExtInstImport, {added_import_});
    for (const Instruction& given : library().module.before)
      if (given.opcode == spv::OpExtInstImport)
        one.words.insert(one.words.end(), given.words.begin() + 2, given.words.end());
    emit_as_is(out, one);
  }

  Parsed module_;
  Id bound_, double_ = 0, uint_ = 0, int_ = 0, float_ = 0, bool_ = 0, pair_ = 0;
  Id imported_ = 0, added_import_ = 0;                          // GLSL.std.450
  std::unordered_map<Id, std::uint32_t> lanes_, vector_lanes_;  // of vectors of doubles; of all
  std::set<Id> wide_;                                           // 64-bit integers
  std::map<Words, Id> given_, declared_;                        // types by content
  std::map<std::pair<Id, std::uint32_t>, Id> constants_;
  std::unordered_map<Id, Id> renames_;
  std::unordered_map<Id, Id> floats_;           // the float that a double was made of
  std::set<Id> changed_;                        // results that are no arithmetic now
  std::map<Id, Id> linked_, globals_, locals_;  // ids of the library
  Words types_, code_;
};

}  // namespace

std::vector<std::uint32_t> emulate_float64(std::span<const std::uint32_t> module) {
  Emulation emulation(module);
  if (!emulation.needed()) return {module.begin(), module.end()};
  return emulation.write();
}

}  // namespace topograd::codegen
