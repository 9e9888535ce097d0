// Bindings, push constants and workgroup size from the words of a module.
#include "reflect_words.hpp"

#include "../../ir/error.hpp"
#include "spirv_words.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <utility>

namespace topograd::codegen {
namespace {

using Id = std::uint32_t;

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::InvalidArgument, std::string("reflect_words: expected ") + what);
}

/// Types, variables and decorations of a module.
class LayoutReader {
 public:
  explicit LayoutReader(std::span<const std::uint32_t> module) {
    if (!looks_like_spirv(module)) refuse("a SPIR-V module");
    const std::size_t end = for_each_instruction(
        module, [&](const SpirvInstruction& op, std::size_t) { read(op.opcode, op.words); });
    if (end != module.size()) refuse("whole instructions");
  }

  ModuleLayout layout() const {
    ModuleLayout out;
    out.capabilities.assign(capabilities_.begin(), capabilities_.end());
    out.extensions.assign(extensions_.begin(), extensions_.end());
    out.workgroup_size = workgroup_size_;
    for (const Variable& v : variables_) {
      if (v.storage == spv::StorageClassPushConstant) add_push_constants(out, pointee(v.type));
      if (v.storage == spv::StorageClassStorageBuffer || v.storage == spv::StorageClassUniform)
        out.bindings.push_back(binding_of(v));
    }
    std::ranges::sort(out.bindings, {},
                      [](const Binding& b) { return std::pair(b.set, b.binding); });
    return out;
  }

 private:
  struct Type {
    std::uint32_t opcode = 0;
    std::vector<std::uint32_t> words;  // after the id
  };
  struct Variable {
    Id type = 0, id = 0;
    std::uint32_t storage = 0;
  };

  void read(std::uint32_t opcode, std::span<const std::uint32_t> w) {
    switch (opcode) {
      case spv::OpCapability: capabilities_.insert(w[1]); break;
      case spv::OpExtension: extensions_.insert(literal_string(w.subspan(1))); break;
      case spv::OpExecutionMode:
        if (w[2] == spv::ExecutionModeLocalSize) workgroup_size_ = {w[3], w[4], w[5]};
        break;
      case spv::OpDecorate: decorations_[{w[1], w[2]}] = w.size() > 3 ? w[3] : 1; break;
      case spv::OpMemberDecorate:
        member_decorations_[{w[1], w[2], w[3]}] = w.size() > 4 ? w[4] : 1;
        break;
      case spv::OpTypeInt:
      case spv::OpTypeFloat:
      case spv::OpTypeVector:
      case spv::OpTypeRuntimeArray:
      case spv::OpTypeStruct:
      case spv::OpTypePointer: types_[w[1]] = {opcode, {w.begin() + 2, w.end()}}; break;
      case spv::OpVariable: variables_.push_back({w[1], w[2], w[3]}); break;
      default: break;
    }
  }

  const Type& type(Id id) const {
    const auto found = types_.find(id);
    if (found == types_.end()) refuse("buffers and push constants of numbers");
    return found->second;
  }
  /// The type that a pointer points to.
  Id pointee(Id pointer) const { return type(pointer).words[1]; }
  std::uint32_t decoration(Id id, spv::Decoration which) const {
    const auto found = decorations_.find({id, which});
    return found == decorations_.end() ? 0 : found->second;
  }
  std::uint32_t of_member(Id block, std::uint32_t member, spv::Decoration which) const {
    const auto found = member_decorations_.find({block, member, which});
    return found == member_decorations_.end() ? 0 : found->second;
  }

  Element element_of(const Type& t) const {
    if (t.opcode == spv::OpTypeFloat) {
      return t.words[0] == 32 ? Element::f32 : t.words[0] == 64 ? Element::f64 : Element::other;
    }
    if (t.opcode != spv::OpTypeInt) return Element::other;
    const bool is_signed = t.words[1] != 0;
    if (t.words[0] == 32) return is_signed ? Element::i32 : Element::u32;
    if (t.words[0] == 64) return is_signed ? Element::i64 : Element::u64;
    return Element::other;
  }

  Binding binding_of(const Variable& v) const {
    Binding out;
    out.set = decoration(v.id, spv::DecorationDescriptorSet);
    out.binding = decoration(v.id, spv::DecorationBinding);
    const Id block = pointee(v.type);
    const Type& members = type(block);
    if (members.opcode != spv::OpTypeStruct || members.words.size() != 1)
      refuse("blocks of one member");
    out.readonly = of_member(block, 0, spv::DecorationNonWritable) != 0 ||
                   decoration(v.id, spv::DecorationNonWritable) != 0;
    out.writeonly = of_member(block, 0, spv::DecorationNonReadable) != 0 ||
                    decoration(v.id, spv::DecorationNonReadable) != 0;
    Id inner = members.words[0];
    if (type(inner).opcode == spv::OpTypeRuntimeArray) {
      out.stride = decoration(inner, spv::DecorationArrayStride);
      inner = type(inner).words[0];
    }
    if (type(inner).opcode == spv::OpTypeVector) {
      out.lanes = type(inner).words[1];
      inner = type(inner).words[0];
    }
    out.element = element_of(type(inner));
    return out;
  }

  void add_push_constants(ModuleLayout& out, Id block) const {
    const Type& members = type(block);
    for (std::uint32_t k = 0; k < members.words.size(); ++k) {
      const Type& member = type(members.words[k]);
      if ((member.opcode != spv::OpTypeInt && member.opcode != spv::OpTypeFloat) ||
          member.words[0] != 32)
        refuse("push constants of 32 bits");
      const std::uint32_t offset = of_member(block, k, spv::DecorationOffset);
      out.push_constants.push_back({{}, offset, 4});
      out.push_constant_size = std::max(out.push_constant_size, offset + 4);
    }
  }

  std::set<std::uint32_t> capabilities_;
  std::set<std::string> extensions_;
  std::array<std::uint32_t, 3> workgroup_size_ = {1, 1, 1};
  std::map<std::pair<Id, std::uint32_t>, std::uint32_t> decorations_;
  std::map<std::tuple<Id, std::uint32_t, std::uint32_t>, std::uint32_t> member_decorations_;
  std::map<Id, Type> types_;
  std::vector<Variable> variables_;
};

}  // namespace

bool has_cooperative_matrices(std::span<const std::uint32_t> module) {
  if (!looks_like_spirv(module)) return false;
  bool found = false;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t) {
    found |= op.opcode == spv::OpCapability && op.words[1] == spv::CapabilityCooperativeMatrixNV;
  });
  return found;
}

ModuleLayout reflect_words(std::span<const std::uint32_t> module) {
  return LayoutReader(module).layout();
}

}  // namespace topograd::codegen
