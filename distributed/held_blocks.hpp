// Internal: the blocks of unknowns that a rank holds, and their numbers in its part of the model.
#pragma once

#include "local_model.hpp"

#include "../runtime/model/block_numbers.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::distributed {

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
