// The part of a model that one rank holds, and the blocks of unknowns in it.
#pragma once

#include "../runtime/model/model.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::distributed {

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
///   model   the whole; topologies and losses outlive the part
///   chunks  chunks_of(model.arrays)
///   owners  rank by chunk
/// Cost: a few passes over all columns.
LocalModel local_model(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> owners, int rank);

/// The blocks that a rank owns, and those that are kept as ghosts because its residuals read them.
class HeldBlocks {
 public:
  ///   model   arrays, flags and bounds of the whole; outlives this, as chunks and owners do
  ///   owners  rank by chunk
  HeldBlocks(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
             std::span<const int> owners, int rank);

  /// The block of a scalar of the whole model.
  std::uint32_t block_of(std::uint32_t scalar) const { return numbers_.at(scalar); }
  int owner(std::uint32_t block) const { return owner_[block]; }
  bool is_own(std::uint32_t block) const { return owner_[block] == rank_; }
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
  std::span<const int> owners_;
  int rank_;
  runtime::BlockNumbers numbers_;
  std::vector<int> owner_;                 // by block
  std::vector<std::uint8_t> kept_;         // by block: own, or a ghost
  std::vector<std::uint32_t> first_here_;  // first scalar in the part, by block
};

}  // namespace topograd::distributed
