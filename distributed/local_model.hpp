// The part of a model that one rank holds.
#pragma once

#include "../runtime/model/model_part.hpp"

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

}  // namespace topograd::distributed
