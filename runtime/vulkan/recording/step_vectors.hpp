// The vectors of a problem on its device, the blocks they fall into, and their kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../model/model.hpp"
#include "vector_ops.hpp"

namespace topograd::runtime::vulkan {

/// Offset of the diagonal blocks of an array, and the width of the blocks that are inverted.
struct BlockRange {
  std::uint32_t x_first = 0;       ///< first scalar of the array
  std::uint32_t blocks_first = 0;  ///< position of its first packed triangle
  std::uint32_t count = 0;         ///< blocks
  std::uint32_t width = 1;
};

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

/// Vectors have model.scalars numbers, in the order of the device.
struct StepVectors {
  StepVectors() = default;
  ///   most_sums  partial sums that a preconditioner adds to those of the blocks, at most
  ///
  /// The context outlives this. Throws Error{Unsupported} if a vector does not fit a storage buffer
  /// range.
  StepVectors(Context& context, const Model& model, std::uint32_t most_sums);

  /// Scalars that take no part in steps.
  const Buffer& not_free() const { return held ? held : fixed; }
  /// Damping and inverses of all blocks.
  kernel::precondition preconditioner() const {
    return {{.scale = scale, .damping = damping, .fixed_scalars = not_free()}, {}};
  }
  /// The trial point within bounds, at `length` of the step of all `count` scalars.
  kernel::bounded_trial bounded_trial(std::uint32_t count, const Buffer& lower, const Buffer& upper,
                                      codegen::Scalar length) const {
    return {{.point = x,
             .delta = step,
             .residual = residual,
             .damping = damping,
             .gradient = gradient,
             .lower_bounds = lower,
             .upper_bounds = upper,
             .result = trial,
             .partials = partials},
            {.count = count, .out_stride = ops->workgroups(count), .length = length}};
  }
  /// Workgroups of record_by_blocks().
  std::uint32_t block_groups() const;
  /// The blocks, in pieces that fit a range; as long as the buffers live.
  std::vector<DiagonalBlocks> diagonal_blocks() const;
  /// Records a kernel over all blocks; returns the workgroups.
  template <class Kernel>
  std::uint32_t record_by_blocks(CommandList& list, const Kernel& kernel,
                                 const VectorVariant& variant = {}) const {
    return vulkan::record_by_blocks(list, *ops, diagonal_blocks(), kernel, variant);
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
  std::vector<std::uint32_t> diagonal_positions;  ///< by scalar: its offset in the packed blocks
  std::uint64_t packed_blocks = 0;
  std::uint32_t most_sums = 0;  ///< entries for partial sums of a preconditioner

 private:
  void lay_out_blocks(const Model& model);

  Context* context_ = nullptr;
};

}  // namespace topograd::runtime::vulkan
