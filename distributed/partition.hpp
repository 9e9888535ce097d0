// Which rank owns which chunk of the unknowns.
#pragma once

#include "communicator.hpp"

#include "../runtime/model/chunks.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::distributed {

/// Chunks that share residuals, with the number of residual rows that each pair shares.
struct ChunkGraph {
  std::vector<std::uint64_t> weights;  ///< rows that read the chunk, by chunk; at least 1
  std::vector<std::uint32_t> starts;   ///< edges of chunk c: starts[c] .. starts[c + 1]
  std::vector<std::uint32_t> neighbours;
  std::vector<std::uint64_t> shared;  ///< rows, by edge
};

/// Cost: a pass over the index columns.
ChunkGraph chunk_graph(const runtime::Model& model, std::span<const runtime::Chunk> chunks);

/// The chunks whose edges a rank's call of partition() reads.
Slice partition_slice(std::uint64_t chunks, int rank, int ranks);

enum class PartitionMethod : std::uint8_t {
  ptscotch,   ///< few shared residuals, by PTScotch through PETSc
  contiguous  ///< consecutive chunks of equal weight
};

/// The part of each chunk, below `parts`, the same on all ranks. Results of a solve, in which each
/// rank has a part, do not depend on it.
std::vector<int> partition(const Communicator& ranks, const ChunkGraph& graph, int parts,
                           PartitionMethod method);

/// Consecutive chunks of about equal weight for each of `parts`.
std::vector<int> contiguous_parts(std::span<const std::uint64_t> weights, int parts);

}  // namespace topograd::distributed
