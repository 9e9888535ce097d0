// The vectors of a problem on its device, the blocks they fall into, and their kernels.
#pragma once

#include "../../model/model.hpp"
#include "block_range.hpp"
#include "vector_ops.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// Vectors have model.scalars numbers, in the order of the device.
struct StepVectors {
  StepVectors() = default;
  ///   most_coarse  coarse unknowns of a preconditioner at most
  ///
  /// The context outlives this. Throws Error{Unsupported} if a vector does not fit a storage buffer
  /// range.
  StepVectors(Context& context, const Model& model, std::uint32_t most_coarse);

  /// Scalars that take no part in steps.
  const Buffer& not_free() const { return held ? held : fixed; }
  /// Damping and inverses of all blocks.
  kernel::precondition preconditioner() const {
    return {{.scale = scale, .damping = damping, .fixed_scalars = not_free()}, {}};
  }
  /// Workgroups of record_by_blocks().
  std::uint32_t block_groups() const;
  /// Kernels of record_by_blocks().
  template <class Kernel>
  void need_by_blocks(Needs& needs, VectorOps::Variant variant = {}) const {
    for (const BlockRange& range : blocks) {
      if (range.count == 0) continue;
      variant.width = range.width;
      ops->need<Kernel>(needs, variant);
      variant.decides = Kernel::kOp != codegen::VectorOp::cg_update;
    }
  }
  /// One dispatch for each array, with its part of the blocks; returns the workgroups. cg_update:
  /// the first one decides.
  template <class Kernel>
  std::uint32_t record_by_blocks(CommandList& list, Kernel kernel,
                                 VectorOps::Variant variant = {}) const {
    std::uint32_t groups = 0;
    const std::uint64_t bytes = context_->element_bytes();
    for (const BlockRange& range : blocks) {
      if (range.count == 0) continue;
      const std::uint64_t first = range.blocks_first * bytes;
      const std::uint64_t size = bytes * range.count * range.width * (range.width + 1) / 2;
      if constexpr (requires { kernel.buffers.blocks; })
        kernel.buffers.blocks = {packed, first, size};
      if constexpr (requires { kernel.buffers.inverse_blocks; })
        kernel.buffers.inverse_blocks = {inverse, first, size};
      variant.width = range.width;
      variant.decides = Kernel::kOp != codegen::VectorOp::cg_update || groups == 0;
      kernel.push.count = range.count;
      kernel.push.first = range.x_first;
      if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
      groups += ops->record(list, kernel, variant);
    }
    return groups;
  }

  std::unique_ptr<VectorOps> ops;
  Buffer x, trial, gradient, direction, next_direction, result;
  Buffer step, residual, product, preconditioned, scale, damping;
  Buffer packed, inverse;  ///< diagonal blocks, see below
  Buffer fixed;            ///< u32 by scalar
  /// u32 by scalar: takes no part in steps; made where others than fixed ones may not.
  Buffer held;
  Buffer partials, curvature, decision;  ///< sums; curvature is sized by how products are made

  std::vector<BlockRange> array_blocks;           ///< by array
  std::vector<BlockRange> blocks;                 ///< the same in pieces that fit a range
  std::vector<std::uint32_t> diagonal_positions;  ///< by scalar: its place in the packed blocks
  std::uint64_t packed_blocks = 0;
  std::uint32_t most_coarse = 0;  ///< places for partial sums of coarse unknowns

 private:
  void lay_out_blocks(const Model& model);

  Context* context_ = nullptr;
};

}  // namespace topograd::runtime::vulkan
