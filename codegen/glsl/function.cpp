// Programs as GLSL functions.
#include "function.hpp"

#include "../../ir/error.hpp"
#include "program.hpp"

namespace topograd::codegen {
namespace {

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
