// shaderc for the tests' own shaders, independent of the library's code generator.
#include "vulkan_shaders.hpp"

#include <mutex>
#include <shaderc/shaderc.hpp>
#include <stdexcept>

namespace topograd::test {

std::vector<std::uint32_t> compile(const std::string& glsl) {
  static std::mutex mutex;
  static const shaderc::Compiler compiler;
  const std::lock_guard lock(mutex);
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  const auto result = compiler.CompileGlslToSpv(glsl, shaderc_compute_shader, "test", options);
  if (result.GetCompilationStatus() != shaderc_compilation_status_success) {
    throw std::runtime_error(result.GetErrorMessage() + glsl);
  }
  return {result.begin(), result.end()};
}

std::string map_shader(std::string_view type, std::string_view expression,
                       std::string_view extensions) {
  std::string text = "#version 450\n";
  text += extensions;
  text += "\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer A { ";
  text += type;
  text += " a[]; };\nlayout(push_constant) uniform P { uint n; };\nvoid main() {\n";
  text += "  uint i = gl_GlobalInvocationID.x;\n  if (i < n) a[i] = ";
  text += expression;
  return text + ";\n}\n";
}

runtime::vulkan::Kernel map_kernel(runtime::vulkan::Device& device, std::string_view type,
                                   std::string_view expression, std::string_view extensions) {
  const auto spirv = compile(map_shader(type, expression, extensions));
  return device.kernel({.spirv = spirv,
                        .name = "map " + std::string(expression),
                        .storage_buffers = 1,
                        .push_constant_bytes = sizeof(std::uint32_t),
                        .local_size = {64, 1, 1}});
}

void record_map(runtime::vulkan::CommandList& list, const runtime::vulkan::Kernel& kernel,
                const runtime::vulkan::Buffer& buffer, std::uint32_t n) {
  const runtime::vulkan::Binding binding{&buffer};
  list.dispatch(kernel, {&binding, 1}, runtime::vulkan::push_bytes(n), map_groups(n));
}

}  // namespace topograd::test
