// Internal: the store of generated kernels, by the hash of their parameters.
#pragma once

#include "../../codegen/glsl/text.hpp"
#include "compute_kernel.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

namespace topograd::ops {

/// The kernel for `key`, made once per process and never removed. Thread-safe.
const ComputeKernel& kernel_for(const ir::Hash128& key, const std::function<ComputeKernel()>& make);
/// The same for a text that has all parameters of the source.
const ComputeKernel& kernel_for(std::string_view key, const std::function<ComputeKernel()>& make);

/// A hash of numbers and of `kind`, which distinguishes kinds of kernels.
template <class... Parts>
ir::Hash128 key_of(std::string_view kind, const Parts&... parts) {
  ir::Hash128 key;
  ir::add_bytes(key, kind.data(), kind.size());
  (key.add(static_cast<std::uint64_t>(parts)), ...);
  return key;
}

/// The kernels of compute_kernels.def.
enum class KernelFile : std::uint8_t {
#define TG_COMPUTE_KERNEL(name, ...) name,
#include "compute_kernels.def"
};

/// The kernel of a .glsl file for elements of a type, with further words in braces replaced.
const ComputeKernel& kernel_for(KernelFile file, Type type,
                                std::initializer_list<codegen::Replacement> replacements = {},
                                std::uint32_t local = 256);

/// The name and text of a .glsl file.
struct EmbeddedFile {
  std::string_view name, text;
};
std::span<const EmbeddedFile> embedded_files();

}  // namespace topograd::ops
