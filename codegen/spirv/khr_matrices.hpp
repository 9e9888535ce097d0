// Translation from SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::codegen {

/// Returns the module with VK_KHR_cooperative_matrix's types and instructions, for compilers that
/// only know GL_NV_cooperative_matrix.
///
/// A KHR type includes the use of the matrix: f32 matrices are accumulators, those whose number of
/// rows is a specialization constant are right factors, others left ones.
///
/// Throws Error{InvalidArgument} if `module` is no whole SPIR-V module. Source:
/// SPV_KHR_cooperative_matrix, revision 7; SPV_NV_cooperative_matrix, revision 2.
std::vector<std::uint32_t> to_khr_matrices(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
