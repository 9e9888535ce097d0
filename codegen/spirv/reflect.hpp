// Reflection of a compiled module's interface, and comparison with the host's layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../kernel.hpp"

namespace topograd::codegen {

/// The interface of a module (bindings by set and number), and its device requirements.
struct ModuleLayout : ExpectedLayout {
  std::vector<std::uint32_t> specialization_ids;  ///< constant_id of each constant, ascending
  std::vector<std::uint32_t> capabilities;        ///< SpvCapability, ascending
  std::vector<std::string> extensions;            ///< SPV_..., ascending

  bool uses_float64() const;
  bool uses_int64() const;
  bool uses_int64_atomics() const;
  bool uses_float32_atomic_add() const;
  bool uses_float64_atomic_add() const;
  bool uses_subgroups() const;
  bool has(std::uint32_t capability) const;
};

/// Reads a compute module through SPIRV-Cross.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or SPIRV-Cross cannot read it.
ModuleLayout reflect(std::span<const std::uint32_t> module);

/// Compares a module with the layout that the host expects; binding order does not matter.
///
/// Throws Error{LayoutMismatch} that names the kernel and the first difference, expected and got.
void check(const ModuleLayout& got, const ExpectedLayout& want, std::string_view kernel_name);

/// True if the module declares CooperativeMatrixNV, which SPIRV-Cross does not know.
bool has_cooperative_matrices(std::span<const std::uint32_t> module);

/// Like reflect(), for storage buffers with one member, push constants of 32-bit members and a
/// workgroup size of literals, as in kernels of arrays and tensors. Names are left empty.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or has other interfaces.
ModuleLayout reflect_words(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
