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

  /// What conjugate gradients and steps read and write.
  BindingTable table() const;
  /// Workgroups of record_by_blocks().
  std::uint32_t block_groups() const;
  /// One dispatch for each array; returns the workgroups. cg_update: the first one decides.
  std::uint32_t record_by_blocks(CommandList& list, VectorOps::Run run,
                                 const BindingTable& table) const;

  std::unique_ptr<VectorOps> ops;
  Buffer x, trial, gradient, direction, next_direction, result;
  Buffer step, residual, product, preconditioned, scale, damping;
  Buffer packed, inverse;  ///< diagonal blocks, see below
  Buffer fixed;            ///< u32 by scalar
  Buffer
      held;  ///< u32 by scalar: takes no part in steps; made where others than fixed ones may not
  Buffer partials, curvature, decision;  ///< of sums; curvature is made for a way to multiply

  std::vector<BlockRange> array_blocks;           ///< by array
  std::vector<BlockRange> blocks;                 ///< the same in pieces that fit a range
  std::vector<std::uint32_t> diagonal_positions;  ///< of each scalar in the packed blocks
  std::uint64_t packed_blocks = 0;
  std::uint32_t most_coarse = 0;  ///< places for partial sums of coarse unknowns

 private:
  void lay_out_blocks(const Model& model);

  Context* context_ = nullptr;
};

}  // namespace topograd::runtime::vulkan
