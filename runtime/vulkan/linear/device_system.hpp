// A linear system on the device, as conjugate gradients see it.
#pragma once

#include "../recording/diagonal_blocks.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace topograd::runtime::vulkan {

/// Vectors of a system's unknowns.
struct SystemVectors {
  const Buffer &gradient, &step, &residual, &product, &preconditioned;
  /// They take turns from iteration to iteration. The same buffer twice: updated in place.
  std::array<const Buffer*, 2> directions;
  const Buffer& fixed;  ///< u32 by unknown
  const Buffer &partials, &curvature, &decision;
  std::vector<DiagonalBlocks> blocks;
  std::uint32_t unknowns, block_groups;  ///< block_groups: workgroups over all blocks
  /// True if each update makes the step of the one before, too, and so reads δ half as often. All
  /// blocks have one width then: dispatches of one update share scalars, which one of them writes.
  bool postpones_steps = false;
};

/// A δ = −gradient with a symmetric positive definite matrix A.
class DeviceSystem {
 public:
  struct Direction {
    const Buffer &preconditioned, &before, &now;
    std::uint32_t sums;  ///< partial sums of r·z
  };

  virtual ~DeviceSystem() = default;
  virtual SystemVectors vectors() = 0;
  /// Inverts the diagonal blocks. Begins behind the caller's barrier, ends with one to come.
  virtual void record_begin(CommandList& list) = 0;
  /// now = preconditioned + β before, product = A now. Returns the partial sums of the curvature.
  /// Barriers as record_begin().
  virtual std::uint32_t record_product(CommandList& list, const Direction& direction) = 0;
};

/// A term that a preconditioner adds to the inverses of the diagonal blocks.
class Correction {
 public:
  virtual ~Correction() = default;
  /// Partial sums of r·z that record_correction() writes behind those of the blocks.
  virtual std::uint32_t sums() const = 0;
  /// Adds to `preconditioned` and to r·z. Begins with a barrier, ends with one to come.
  ///
  ///   predicated  only while the solver runs
  virtual void record_correction(CommandList& list, bool predicated) = 0;
};

}  // namespace topograd::runtime::vulkan
