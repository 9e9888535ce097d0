// Blocks of unknowns on manifolds, as a backend sees them.
#pragma once

#include "../../ir/program.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Blocks of one array on one manifold.
///
/// Vectors of damped steps keep a block's tangent coordinates in the first places of the block; the
/// places after them are 0. So a step has as many numbers as x, and kernels need not know
/// manifolds.
struct ManifoldBlocks {
  std::uint32_t width = 0;    ///< numbers of a block
  std::uint32_t tangent = 0;  ///< coordinates of a step, 1 .. width
  /// x ⊞ δ: parameter k is x_k, tangent k < `tangent` is δ_k. Outputs: width.
  ir::Program plus;
  /// P = ∂(x ⊞ δ)/∂δ at δ = 0 from x, a square matrix row by row whose columns from `tangent` on
  /// are 0. Outputs: width².
  ir::Program basis;
  std::vector<std::uint32_t> blocks;  ///< first scalars in x, ascending

  friend bool operator==(const ManifoldBlocks&, const ManifoldBlocks&) = default;
};

struct Manifolds {
  std::vector<ManifoldBlocks> all;
  friend bool operator==(const Manifolds&, const Manifolds&) = default;
};

}  // namespace topograd::runtime
