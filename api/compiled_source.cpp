// SPIR-V and other shading languages of a kernel.
#include "compiled_source.hpp"

#include "../codegen/spirv/cross.hpp"
#include "../codegen/spirv/shader_compiler.hpp"
#include "../runtime/device/kernels/kernel_cache.hpp"

namespace topograd {

namespace {

std::string text_of(const std::vector<std::uint32_t>& module, const std::string& format) {
  if (format == "hlsl") return codegen::cross(module, codegen::Dialect::HLSL);
  if (format == "msl") return codegen::cross(module, codegen::Dialect::MSL);
  if (format == "essl") return codegen::cross(module, codegen::Dialect::ESSL);
  if (format == "wgsl") return codegen::wgsl(module);
  return codegen::disassemble(module);
}

}  // namespace

std::string compiled_source(const codegen::KernelSource& kernel, const std::string& format) {
  return text_of(runtime::vulkan::compile_shader(runtime::vulkan::shader_of(kernel)), format);
}

std::string compiled_source(const runtime::ListedKernel& kernel, const std::string& format) {
  return text_of(codegen::compile({.name = kernel.name, .glsl = kernel.glsl, .includes = {}}),
                 format);
}

}  // namespace topograd
