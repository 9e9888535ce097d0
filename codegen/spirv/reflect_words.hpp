// Reflection of modules that SPIRV-Cross cannot read: those with cooperative matrices.
#pragma once

#include "reflect.hpp"

#include <cstdint>
#include <span>

namespace topograd::codegen {

/// True if the module declares CooperativeMatrixNV, which SPIRV-Cross does not know.
bool has_cooperative_matrices(std::span<const std::uint32_t> module);

/// Like reflect(), for storage buffers with one member, push constants of 32-bit members and a
/// workgroup size of literals, as in kernels of arrays and tensors. Names are left empty.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or has other interfaces.
ModuleLayout reflect_words(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
