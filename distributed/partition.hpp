// Which rank owns which chunk of the unknowns.
#pragma once

#include "communicator.hpp"

#include "../runtime/model/model.hpp"

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

enum class PartitionMethod : std::uint8_t {
  scotch,     ///< few shared residuals, by Scotch
  contiguous  ///< consecutive chunks of equal weight
};

/// The part of each chunk, below `parts`, the same on all ranks and in every run with the same
/// graph and number of parts. Rank 0 makes it alone. Results of a solve, in which each rank has a
/// part, do not depend on it. Collective.
///
///   graph  its edges are read on rank 0 alone
/// Cost: milliseconds for meshes, seconds where every chunk touches every other.
std::vector<int> partition(const Communicator& ranks, const ChunkGraph& graph, int parts,
                           PartitionMethod method);

/// Consecutive chunks of about equal weight for each of `parts`.
std::vector<int> contiguous_parts(std::span<const std::uint64_t> weights, int parts);

}  // namespace topograd::distributed
