// A compute shader under construction: finish() declares everything its body uses.
#pragma once

#include "../kernel.hpp"
#include "text.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen {

enum class Access { read, write, read_write };

/// One uint of the push constant block.
struct PushMember {
  std::string_view name;
  std::string_view comment;
};

/// The parts of a shader around its body.
struct ShaderFrame {
  std::string name;
  std::vector<std::string> header;  ///< comment lines
  std::uint32_t workgroup_size = 128;
  std::span<const PushMember> push_constants;
  bool float_controls_f32 = false, float_controls_f64 = false;  ///< as in KernelSource
};

/// Collects buffers, extensions, functions and the body of main().
class Shader {
 public:
  /// Records the use of a buffer; accesses add up. Returns the name of its array.
  std::string_view use(BufferRole role, Element element, Access access = Access::read);
  /// The same for an array of another name.
  std::string_view use(BufferRole role, Element element, Access access, std::string_view name);
  void need_extension(std::string_view extension) { extensions_.emplace(extension); }
  /// Adds a declaration at file level (a function, a shared array), once per `key`, in order of
  /// use.
  void declare(std::string_view key, std::string_view text);
  /// Records the use of a push constant word; returns its name.
  std::string use(const ColumnForm& form);
  const std::set<ColumnForm>& forms() const { return forms_; }
  /// Returns the spelling of calls of a math library function and adds its source to the shader.
  std::string math_function(std::string_view function, Precision precision);

  Lines& body() { return body_; }
  const std::set<std::string, std::less<>>& extensions() const { return extensions_; }
  /// The functions that the body calls: those of the library, then declarations.
  std::string functions() const;

  /// Returns the source, its bindings and its device requirements.
  KernelSource finish(const ShaderFrame& frame) const;

 private:
  struct Use {
    Element element;
    Access access;
    std::string_view name;
  };
  std::string declarations(const ShaderFrame& frame) const;
  void collect_needs(KernelSource& out) const;

  std::map<BufferRole, Use> uses_;
  std::set<ColumnForm> forms_;
  std::set<std::string, std::less<>> extensions_;
  std::set<std::string, std::less<>> declared_;
  std::set<std::string, std::less<>> math_[2];  // by precision
  std::vector<std::string> file_level_;
  Lines body_{1};
};

/// Name of the block with an array.
std::string block_name(std::string_view array);
std::string form_name(const ColumnForm& form);

/// Writes a return statement for when the solver is done (Scalar::state is not 0).
void write_predicate(Shader& shader, Precision scalars, BufferRole role = BufferRole::scalars);

}  // namespace topograd::codegen
