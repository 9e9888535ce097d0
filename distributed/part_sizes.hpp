// Sizes of all parts of a divided model, counted without making the parts.
#pragma once

#include "../runtime/model/chunks.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::distributed {

/// One rank holds and exchanges this much, as far as times depend on it.
struct PartSize {
  std::uint64_t chunks = 0;
  std::uint64_t blocks = 0, scalars = 0;              ///< owned
  std::uint64_t ghost_blocks = 0, ghost_scalars = 0;  ///< copies of other ranks' blocks
  std::uint64_t residuals = 0;                        ///< residual blocks evaluated
  std::uint64_t again = 0;                            ///< of these, counted by another rank
  std::uint64_t senders = 0;                          ///< ranks that own the ghosts
};

/// The sizes that local_model() and Halo have for each rank.
///
///   model   the whole
///   chunks  chunks_of(model.arrays)
///   owners  rank by chunk, below `parts`
/// Cost: a pass over the index columns, and a sort of the blocks at borders.
std::vector<PartSize> part_sizes(const runtime::Model& model,
                                 std::span<const runtime::Chunk> chunks,
                                 std::span<const int> owners, int parts);

}  // namespace topograd::distributed
