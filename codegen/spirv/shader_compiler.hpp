// GLSL compute shaders to SPIR-V, in process.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace topograd::codegen {

/// A compute shader: its entry point is main().
struct ShaderSource {
  std::string name;                             ///< used in error messages
  std::string glsl;                             ///< the source, from #version on
  std::map<std::string, std::string> includes;  ///< content for each #include "key"
};

/// Compiles a compute shader for Vulkan 1.2 (SPIR-V 1.5).
///
/// A module keeps its names and is not optimised, except that a large one has values in place of
/// variables. The same source gives the same words. Safe on any thread: the
/// process keeps one compiler, so only the first call pays for its set-up.
///
/// Throws Error{ShaderCompile} with the shader's name, the first complaints of the compiler and the
/// source lines that they are about. Cost: a few milliseconds for a kernel of 200 lines.
std::vector<std::uint32_t> compile(const ShaderSource& source);

/// Shaders that compile() has made in this process, on all threads.
std::uint64_t shaders_compiled();

/// SPIR-V as assembly, one instruction per line, with friendly names.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V.
std::string disassemble(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
