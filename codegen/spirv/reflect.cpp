// Reflection through SPIRV-Cross' C interface, and comparison with the host's layout.
#include "reflect.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <utility>

#include "../../ir/error.hpp"
#include "cross_context.hpp"
#include "edit_modules.hpp"

namespace topograd::codegen {
namespace {

Element element_of(spvc_basetype type) {
  switch (type) {
    case SPVC_BASETYPE_FP32: return Element::f32;
    case SPVC_BASETYPE_FP64: return Element::f64;
    case SPVC_BASETYPE_INT32: return Element::i32;
    case SPVC_BASETYPE_UINT32: return Element::u32;
    case SPVC_BASETYPE_INT64: return Element::i64;
    case SPVC_BASETYPE_UINT64: return Element::u64;
    default: return Element::other;
  }
}

// The last member decides: if there is an array, it is that one.
void read_elements(const CrossContext& context, spvc_type block, Binding& out) {
  const spvc_compiler compiler = context.compiler();
  const unsigned members = spvc_type_get_num_member_types(block);
  if (members == 0) return;
  const spvc_type member =
      spvc_compiler_get_type_handle(compiler, spvc_type_get_member_type(block, members - 1));
  out.element = element_of(spvc_type_get_basetype(member));
  out.lanes = spvc_type_get_vector_size(member);
  if (spvc_type_get_num_array_dimensions(member) > 0) {
    unsigned stride = 0;
    context.expect(
        spvc_compiler_type_struct_member_array_stride(compiler, block, members - 1, &stride));
    out.stride = stride;
  }
}

void read_bindings(const CrossContext& context, spvc_resources resources, spvc_resource_type type,
                   std::vector<Binding>& out) {
  const spvc_compiler compiler = context.compiler();
  const spvc_reflected_resource* list = nullptr;
  std::size_t count = 0;
  context.expect(spvc_resources_get_resource_list_for_type(resources, type, &list, &count));
  for (const spvc_reflected_resource& resource : std::span(list, count)) {
    Binding b;
    b.set = spvc_compiler_get_decoration(compiler, resource.id, SpvDecorationDescriptorSet);
    b.binding = spvc_compiler_get_decoration(compiler, resource.id, SpvDecorationBinding);
    const std::string variable = spvc_compiler_get_name(compiler, resource.id);
    b.name = variable.empty() ? resource.name : variable;
    read_elements(context, spvc_compiler_get_type_handle(compiler, resource.base_type_id), b);
    const SpvDecoration* decorations = nullptr;
    std::size_t decoration_count = 0;
    context.expect(spvc_compiler_get_buffer_block_decorations(compiler, resource.id, &decorations,
                                                              &decoration_count));
    const std::span all(decorations, decoration_count);
    b.readonly = type == SPVC_RESOURCE_TYPE_UNIFORM_BUFFER ||
                 std::ranges::find(all, SpvDecorationNonWritable) != all.end();
    b.writeonly = std::ranges::find(all, SpvDecorationNonReadable) != all.end();
    out.push_back(std::move(b));
  }
}

void read_push_constants(const CrossContext& context, spvc_resources resources, ModuleLayout& out) {
  const spvc_compiler compiler = context.compiler();
  const spvc_reflected_resource* list = nullptr;
  std::size_t count = 0;
  context.expect(spvc_resources_get_resource_list_for_type(
      resources, SPVC_RESOURCE_TYPE_PUSH_CONSTANT, &list, &count));
  if (count == 0) return;
  const spvc_type block = spvc_compiler_get_type_handle(compiler, list[0].base_type_id);
  for (unsigned i = 0; i < spvc_type_get_num_member_types(block); ++i) {
    unsigned offset = 0;
    std::size_t size = 0;
    context.expect(spvc_compiler_type_struct_member_offset(compiler, block, i, &offset));
    context.expect(spvc_compiler_get_declared_struct_member_size(compiler, block, i, &size));
    out.push_constants.push_back({spvc_compiler_get_member_name(compiler, list[0].base_type_id, i),
                                  offset, static_cast<std::uint32_t>(size)});
    out.push_constant_size = std::max(out.push_constant_size, offset + static_cast<unsigned>(size));
  }
  std::ranges::sort(out.push_constants, {}, &PushConstant::offset);
}

void read_workgroup(const CrossContext& context, ModuleLayout& out) {
  const spvc_compiler compiler = context.compiler();
  std::array<spvc_specialization_constant, 3> sizes{};
  spvc_compiler_get_work_group_size_specialization_constants(compiler, &sizes[0], &sizes[1],
                                                             &sizes[2]);
  const spvc_specialization_constant* constants = nullptr;
  std::size_t count = 0;
  context.expect(spvc_compiler_get_specialization_constants(compiler, &constants, &count));
  for (const spvc_specialization_constant& c : std::span(constants, count)) {
    out.specialization_ids.push_back(c.constant_id);
  }
  std::ranges::sort(out.specialization_ids);
  for (unsigned i = 0; i < 3; ++i) {
    if (sizes[i].id == 0) {
      out.workgroup_size[i] = spvc_compiler_get_execution_mode_argument_by_index(
          compiler, SpvExecutionModeLocalSize, i);
    } else {
      out.workgroup_ids[i] = sizes[i].constant_id;
      out.workgroup_size[i] = spvc_constant_get_scalar_u32(
          spvc_compiler_get_constant_handle(compiler, sizes[i].id), 0, 0);
    }
  }
}

void read_needs(const CrossContext& context, ModuleLayout& out) {
  const SpvCapability* capabilities = nullptr;
  std::size_t count = 0;
  context.expect(
      spvc_compiler_get_declared_capabilities(context.compiler(), &capabilities, &count));
  out.capabilities.assign(capabilities, capabilities + count);
  std::ranges::sort(out.capabilities);
  const char** extensions = nullptr;
  context.expect(spvc_compiler_get_declared_extensions(context.compiler(), &extensions, &count));
  out.extensions.assign(extensions, extensions + count);
  std::ranges::sort(out.extensions);
}

// Compares one property after the other and throws on the first difference.
class Comparison {
 public:
  explicit Comparison(std::string_view kernel) : kernel_(kernel) {}

  void equal(const std::string& what, const std::string& want, const std::string& got) const {
    if (want != got) fail(what + ": expected " + want + ", got " + got);
  }
  void equal(const std::string& what, std::uint64_t want, std::uint64_t got) const {
    equal(what, std::to_string(want), std::to_string(got));
  }
  [[noreturn]] void fail(const std::string& difference) const {
    throw Error(ErrorCode::LayoutMismatch, "check: kernel \"" + kernel_ + "\": " + difference);
  }

 private:
  std::string kernel_;
};

std::string location(const Binding& b) {
  return "set " + std::to_string(b.set) + " binding " + std::to_string(b.binding);
}

std::string access(const Binding& b) {
  if (b.readonly && b.writeonly) return "no access";
  return b.readonly ? "readonly" : b.writeonly ? "writeonly" : "read and write";
}

std::string type_of(const Binding& b) {
  return std::string(name(b.element)) +
         (b.lanes > 1 ? " x " + std::to_string(b.lanes) : std::string());
}

bool before(const Binding& a, const Binding& b) {
  return std::pair(a.set, a.binding) < std::pair(b.set, b.binding);
}

void compare_bindings(const Comparison& compare, const std::vector<Binding>& got,
                      std::vector<Binding> want) {
  std::ranges::sort(want, before);
  for (std::size_t i = 0; i < want.size() || i < got.size(); ++i) {
    if (i == got.size() || (i < want.size() && before(want[i], got[i]))) {
      compare.fail(location(want[i]) + ": expected \"" + want[i].name + "\", got no binding");
    }
    if (i == want.size() || before(got[i], want[i])) {
      compare.fail(location(got[i]) + ": expected no binding, got \"" + got[i].name + "\"");
    }
    const std::string where = location(want[i]) + " (\"" + want[i].name + "\") ";
    compare.equal(where + "name", "\"" + want[i].name + "\"", "\"" + got[i].name + "\"");
    compare.equal(where + "element", type_of(want[i]), type_of(got[i]));
    compare.equal(where + "stride", want[i].stride, got[i].stride);
    compare.equal(where + "access", access(want[i]), access(got[i]));
  }
}

void compare_push_constants(const Comparison& compare, const ModuleLayout& got,
                            const ExpectedLayout& want) {
  const std::size_t common = std::min(got.push_constants.size(), want.push_constants.size());
  for (std::size_t i = 0; i < common; ++i) {
    const PushConstant &w = want.push_constants[i], &g = got.push_constants[i];
    const std::string where = "push constant " + std::to_string(i) + " (\"" + w.name + "\") ";
    compare.equal(where + "name", "\"" + w.name + "\"", "\"" + g.name + "\"");
    compare.equal(where + "offset", w.offset, g.offset);
    compare.equal(where + "size", w.size, g.size);
  }
  compare.equal("number of push constants", want.push_constants.size(), got.push_constants.size());
  compare.equal("push constant bytes", want.push_constant_size, got.push_constant_size);
}

}  // namespace

bool ModuleLayout::has(std::uint32_t capability) const {
  return std::ranges::binary_search(capabilities, capability);
}
bool ModuleLayout::uses_float64() const { return has(SpvCapabilityFloat64); }
bool ModuleLayout::uses_int64() const { return has(SpvCapabilityInt64); }
bool ModuleLayout::uses_int64_atomics() const { return has(SpvCapabilityInt64Atomics); }
bool ModuleLayout::uses_float32_atomic_add() const { return has(SpvCapabilityAtomicFloat32AddEXT); }
bool ModuleLayout::uses_float64_atomic_add() const { return has(SpvCapabilityAtomicFloat64AddEXT); }
bool ModuleLayout::uses_subgroups() const { return has(SpvCapabilityGroupNonUniform); }

ModuleLayout reflect(std::span<const std::uint32_t> module) {
  const CrossContext context(module, SPVC_BACKEND_NONE, "reflect");
  spvc_resources resources = nullptr;
  context.expect(spvc_compiler_create_shader_resources(context.compiler(), &resources));
  ModuleLayout out;
  read_bindings(context, resources, SPVC_RESOURCE_TYPE_STORAGE_BUFFER, out.bindings);
  read_bindings(context, resources, SPVC_RESOURCE_TYPE_UNIFORM_BUFFER, out.bindings);
  std::ranges::sort(out.bindings, before);
  read_push_constants(context, resources, out);
  read_workgroup(context, out);
  read_needs(context, out);
  return out;
}

void check(const ModuleLayout& got, const ExpectedLayout& want, std::string_view kernel_name) {
  const Comparison compare(kernel_name);
  compare_bindings(compare, got.bindings, want.bindings);
  compare_push_constants(compare, got, want);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string axis(1, "xyz"[i]);
    const auto id = [](std::uint32_t value) {
      return value == kNoSpecialization ? std::string("none") : std::to_string(value);
    };
    compare.equal("workgroup size " + axis, want.workgroup_size[i], got.workgroup_size[i]);
    compare.equal("workgroup constant " + axis, id(want.workgroup_ids[i]),
                  id(got.workgroup_ids[i]));
  }
}

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
