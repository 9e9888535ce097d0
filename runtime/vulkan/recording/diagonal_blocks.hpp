// Diagonal blocks of a system on the device, and kernels that run over them.
#pragma once

#include "vector_ops.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime::vulkan {

/// Blocks of one width, neighbours in every vector.
struct DiagonalBlocks {
  std::uint32_t count = 0, width = 1;
  std::uint32_t first = 0;          ///< their first unknown
  kernel::Part packed, inverse;     ///< triangles of the blocks, and of their inverses
  std::uint32_t inverse_first = 0;  ///< number of `inverse` where these begin
};

/// Records a dispatch for each width, with its part of the blocks; returns the workgroups.
/// cg_update: the first dispatch decides.
template <class Kernel>
std::uint32_t record_by_blocks(CommandList& list, VectorOps& vectors,
                               std::span<const DiagonalBlocks> all, Kernel kernel,
                               VectorVariant variant = {}) {
  std::uint32_t groups = 0;
  for (const DiagonalBlocks& blocks : all) {
    if constexpr (requires { kernel.buffers.blocks; }) kernel.buffers.blocks = blocks.packed;
    if constexpr (requires { kernel.buffers.inverse_blocks; })
      kernel.buffers.inverse_blocks = blocks.inverse;
    if constexpr (requires { kernel.push.inverse_first; })
      kernel.push.inverse_first = blocks.inverse_first;
    if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
    kernel.push.count = blocks.count;
    kernel.push.first = blocks.first;
    variant.width = blocks.width;
    variant.decides = Kernel::kOp != codegen::VectorOp::cg_update || groups == 0;
    groups += vectors.record(list, kernel, variant);
  }
  return groups;
}

}  // namespace topograd::runtime::vulkan
