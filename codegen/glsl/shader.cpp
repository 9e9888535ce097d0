// Assembly of shaders: header, extensions, push constants, buffers, functions, main.
#include "shader.hpp"

#include "../math/library.hpp"

namespace topograd::codegen {
namespace {

std::string_view qualifier(Access access) {
  switch (access) {
    case Access::read: return "readonly ";
    case Access::write: return "writeonly ";
    case Access::read_write: return "";
  }
  return "";
}

constexpr std::string_view kInt64Atomics = "GL_EXT_shader_atomic_int64";
constexpr std::string_view kFloatAtomics = "GL_EXT_shader_atomic_float";
constexpr std::string_view kSubgroups = "GL_KHR_shader_subgroup_arithmetic";

}  // namespace

std::string block_name(std::string_view array) {
  std::string out;
  bool upper = true;
  for (const char c : array) {
    if (c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(c - 'a' + 'A') : c;
      upper = false;
    }
  }
  return out + "Buffer";
}

std::string_view Shader::use(BufferRole role, Element element, Access access) {
  return use(role, element, access, name(role));
}

std::string_view Shader::use(BufferRole role, Element element, Access access,
                             std::string_view name) {
  const auto [entry, added] = uses_.emplace(role, Use{element, access, name});
  if (!added && entry->second.access != access) entry->second.access = Access::read_write;
  return name;
}

std::string form_name(const ColumnForm& form) {
  switch (form.word) {
    case ColumnForm::Word::index: return text("index_form_", form.form);
    case ColumnForm::Word::step: return text("index_step_", form.form);
    case ColumnForm::Word::data: return text("data_form_", form.form);
  }
  return "";
}

std::string Shader::use(const ColumnForm& form) {
  forms_.insert(form);
  return form_name(form);
}

void Shader::declare(std::string_view key, std::string_view text) {
  if (declared_.emplace(key).second) file_level_.emplace_back(text);
}

std::string Shader::math_function(std::string_view function, Precision precision) {
  if (!math::is_built_in(function)) math_[static_cast<std::size_t>(precision)].emplace(function);
  return math::spelling(function, precision);
}

std::string Shader::declarations(const ShaderFrame& frame) const {
  Lines out;
  out.line("layout(local_size_x = ", frame.workgroup_size, ") in;");
  out.line();
  out.open("layout(push_constant) uniform PushConstants");
  std::size_t width = 0;
  for (const PushMember& member : frame.push_constants) width = std::max(width, member.name.size());
  for (const PushMember& member : frame.push_constants) {
    const std::string blanks(width - member.name.size(), ' ');
    const std::string comment = text(blanks, "  // ", member.comment);
    out.line("uint ", member.name, ";", member.comment.empty() ? "" : comment);
  }
  out.close("};");
  out.line();
  std::uint32_t binding = 0;
  for (const auto& [role, use] : uses_) {
    out.line("layout(std430, binding = ", binding++, ") restrict ", qualifier(use.access),
             "buffer ", block_name(use.name), " { ", codegen::name(use.element), " ", use.name,
             "[]; };");
  }
  out.line();
  return out.text();
}

void Shader::collect_needs(KernelSource& out) const {
  for (const auto& [role, use] : uses_) {
    out.bindings.push_back({.role = role,
                            .binding = static_cast<std::uint32_t>(out.bindings.size()),
                            .element = use.element,
                            .writes = use.access != Access::read,
                            .reads = use.access != Access::write,
                            .name = std::string(use.name)});
    out.needs_float64 |= use.element == Element::f64;
  }
  // A shader whose buffers are all narrow may still compute in double.
  for (const std::string& text : file_level_) {
    out.needs_float64 |= text.find("double") != std::string::npos;
  }
  out.needs_float64 |= body_.text().find("double") != std::string::npos;
  out.needs_int64_atomics = extensions_.contains(kInt64Atomics);
  out.needs_atomic_float = extensions_.contains(kFloatAtomics);
  out.needs_subgroups = extensions_.contains(kSubgroups);
}

std::string Shader::functions() const {
  std::string code;
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    const auto& names = math_[static_cast<std::size_t>(precision)];
    if (names.empty()) continue;
    code += math::library(std::vector<std::string>(names.begin(), names.end()), precision) + "\n";
  }
  bool constants = false;  // single lines are grouped
  for (const std::string& declaration : file_level_) {
    const bool single = !declaration.ends_with('\n');
    if (constants && !single) code += '\n';
    code += declaration + "\n";
    constants = single;
  }
  if (constants) code += '\n';
  return code;
}

KernelSource Shader::finish(const ShaderFrame& frame) const {
  KernelSource out;
  out.name = frame.name;
  out.workgroup_size = frame.workgroup_size;
  for (const PushMember& member : frame.push_constants)
    out.push_constants.emplace_back(member.name);
  collect_needs(out);

  std::string code = "#version 450\n";
  for (const std::string& extension : extensions_) {
    code += text("#extension ", extension, " : require\n");
  }
  code += "\n" + declarations(frame) + functions();
  code += "void main() {\n" + body_.text() + "}\n";

  for (const std::string& line : frame.header)
    out.glsl += line.empty() ? "//\n" : "// " + line + "\n";
  ir::add_bytes(out.hash, code.data(), code.size());
  out.float_controls_f32 = frame.float_controls_f32;
  out.float_controls_f64 = frame.float_controls_f64;
  out.hash.add((frame.float_controls_f32 ? 1u : 0u) | (frame.float_controls_f64 ? 2u : 0u));
  out.glsl += code;
  return out;
}

void write_predicate(Shader& shader, Precision scalars, BufferRole role) {
  const std::string_view name = shader.use(role, element_of(scalars));
  shader.body().line("if (", name, "[0] != ", literal(0, scalars),
                     ") return;  // the solver is done");
}

}  // namespace topograd::codegen
