// Cooperative matrices of SPV_NV_cooperative_matrix as those of SPV_KHR_cooperative_matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::codegen {

/// The same module with VK_KHR_cooperative_matrix's types and instructions, for compilers that only
/// know GL_NV_cooperative_matrix.
///
/// What a matrix is used for is part of its KHR type: those of f32 are sums, those whose number of
/// rows is a specialization constant are right factors, others left ones.
///
/// Throws Error{InvalidArgument} if `module` is no whole SPIR-V module.
/// Source: SPV_KHR_cooperative_matrix, revision 7; SPV_NV_cooperative_matrix, revision 2.
std::vector<std::uint32_t> to_khr_matrices(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
