// SPIR-V and other shading languages of a kernel.
#include <topograd/api/compiled_source.hpp>

#include <topograd/codegen/cross.hpp>
#include <topograd/codegen/shader_compiler.hpp>
#include <topograd/runtime/vulkan/kernel_cache.hpp>

namespace topograd {

std::string compiled_source(const codegen::KernelSource& kernel, const std::string& format) {
  const std::vector<std::uint32_t> module = runtime::vulkan::compile_checked(kernel);
  if (format == "hlsl") return codegen::cross(module, codegen::Dialect::hlsl);
  if (format == "msl") return codegen::cross(module, codegen::Dialect::msl);
  if (format == "essl") return codegen::cross(module, codegen::Dialect::essl);
  return codegen::disassemble(module);
}

}  // namespace topograd
