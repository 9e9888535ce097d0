// Compiles the small shaders of the Vulkan tests, and runs and reads kernels in one line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../../runtime/device/device.hpp"

namespace topograd::test {

/// SPIR-V of a compute shader for Vulkan 1.2. Throws std::runtime_error with the compiler's text.
std::vector<std::uint32_t> compile(const std::string& glsl);

/// `v[i] = EXPRESSION` for i < n, with n the only push constant and 64 invocations per workgroup;
/// `a` is binding 0. Extensions (whole lines) come before the declarations.
std::string map_shader(std::string_view type, std::string_view expression,
                       std::string_view extensions = "");

/// The kernel of a map_shader.
runtime::vulkan::Kernel map_kernel(runtime::vulkan::Device& device, std::string_view type,
                                   std::string_view expression, std::string_view extensions = "");

/// Workgroups of a map_shader for n elements.
constexpr std::uint32_t map_groups(std::uint32_t n) { return (n + 63) / 64; }

/// Records a map_kernel over n elements of a buffer.
void record_map(runtime::vulkan::CommandList& list, const runtime::vulkan::Kernel& kernel,
                const runtime::vulkan::Buffer& buffer, std::uint32_t n);

/// Contents of a buffer.
template <class T>
std::vector<T> contents(runtime::vulkan::Device& device, const runtime::vulkan::Buffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  device.download(buffer, std::span(values));
  return values;
}

/// A device buffer that holds the values.
template <class T>
runtime::vulkan::Buffer filled(runtime::vulkan::Device& device, const std::vector<T>& values,
                               std::string_view name = "values") {
  auto buffer = device.buffer(values.size() * sizeof(T), runtime::vulkan::MemoryKind::Device, name);
  device.upload(buffer, std::span<const T>(values));
  return buffer;
}

/// first, first + 1, ...
template <class T>
std::vector<T> counting(std::size_t count, T first = T{0}) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<T>(i);
  return values;
}

}  // namespace topograd::test
