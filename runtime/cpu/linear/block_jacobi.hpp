// The block-Jacobi preconditioner: inverses of the damped diagonal blocks of JᵀJ.
#pragma once

#include "../terms/block_layout.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime::cpu {

/// Blocks of one range of work.
inline constexpr std::size_t kBlocksPerRange = 4096;

template <class T>
class BlockJacobi {
 public:
  /// Inverts every block + its part of the diagonal `damping`.
  ///
  /// Rows and columns of constant scalars are taken as those of the identity. Blocks that are not
  /// positive definite, and those wider than kWidestDenseBlock, are inverted by their diagonal
  /// alone; a diagonal entry that is not positive counts as 1.
  ///
  ///   blocks    packed, layout.packed_scalars() numbers
  ///   damping   by scalar of x
  ///   constant  by scalar of x, or empty
  void build(Pool& pool, const BlockLayout& layout, const T* blocks, const T* damping,
             std::span<const std::uint8_t> constant);

  /// z = M⁻¹ r for the blocks [begin, end).
  void apply(const BlockLayout& layout, std::uint32_t begin, std::uint32_t end, const T* r,
             T* z) const;

  std::uint64_t bytes() const { return inverse_.size() * sizeof(T); }

 private:
  Column<T> inverse_;
};

}  // namespace topograd::runtime::cpu
