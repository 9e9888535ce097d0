// The division of a model among ranks: the rank of each chunk, and the part that one rank holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../runtime/model/model.hpp"
#include "communicator.hpp"

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

/// Consecutive scalars in the whole model and in the part.
struct Run {
  std::uint64_t whole = 0, here = 0, count = 0;
};

/// An ordinary model of the residuals that read a block of the rank, in the order of the whole
/// model, with the rank's blocks and ghosts in the order of the whole model. Rows keep their
/// numbers.
struct LocalModel {
  runtime::Model model;
  std::vector<std::unique_ptr<ir::Batch>> batches;  ///< of its terms
  std::vector<runtime::Chunk> chunks;               ///< the own ones, in the part's numbers
  std::vector<std::size_t> chunk_numbers;           ///< in the whole model
  std::vector<Run> own, ghosts;                     ///< scalars
  struct LocalTerm {
    std::size_t whole = 0;                 ///< term of the whole model
    std::vector<std::uint32_t> instances;  ///< in the whole model's batch, ascending
    std::vector<std::uint8_t> counted;     ///< 1: this rank counts it in sums over all residuals
  };
  std::vector<LocalTerm> terms;  ///< those with instances here
  std::uint64_t blocks = 0, ghost_blocks = 0;
  std::uint64_t residuals = 0;  ///< instances that are evaluated here
  std::uint64_t again = 0;      ///< of these, counted by another rank

  /// Copies the part's scalars, ghosts included, of a vector of the whole model.
  void narrow(std::span<const double> whole, std::span<double> here) const;
  /// Copies own scalars, and sets all others to 0.
  void widen(std::span<const double> here, std::span<double> whole) const;
};

/// The part of `rank`.
///
///   model          the whole; topologies and losses outlive the part
///   chunks         chunks_of(model.arrays)
///   rank_of_chunk  of each chunk
/// Cost: a few passes over all columns.
LocalModel local_model(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> rank_of_chunk, int rank);

/// The blocks that a rank owns, and those that are kept as ghosts because its residuals read them.
class HeldBlocks {
 public:
  ///   model          arrays, flags and bounds of the whole; outlives this, as the other spans do
  ///   rank_of_chunk  of each chunk
  HeldBlocks(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
             std::span<const int> rank_of_chunk, int rank);

  /// The block of a scalar of the whole model.
  std::uint32_t block_of(std::uint32_t scalar) const { return numbers_.at(scalar); }
  int rank_of(std::uint32_t block) const { return rank_of_block_[block]; }
  bool is_own(std::uint32_t block) const { return rank_of_block_[block] == rank_; }
  void keep(std::uint32_t block) { kept_[block] = 1; }

  /// Numbers the blocks in the order of the whole model: sets arrays, flags, bounds and manifolds
  /// of out.model, and what `out` says of chunks and blocks.
  void number(LocalModel& out);
  /// The number of a scalar in the part. After number().
  std::uint32_t scalar_here(std::uint32_t whole) const;

 private:
  void number_blocks(LocalModel& out);
  void number_chunks(LocalModel& out) const;
  void number_manifolds(LocalModel& out) const;
  void copy_scalars(std::uint64_t first, std::uint32_t count, LocalModel& out) const;

  const runtime::Model& model_;
  std::span<const runtime::Chunk> chunks_;
  std::span<const int> rank_of_chunk_;
  int rank_;
  runtime::BlockNumbers numbers_;
  std::vector<int> rank_of_block_;         // by block
  std::vector<std::uint8_t> kept_;         // by block: own, or a ghost
  std::vector<std::uint32_t> first_here_;  // first scalar in the part, by block
};

}  // namespace topograd::distributed
