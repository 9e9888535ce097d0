// Chunks of unknowns: the unit of sums in a fixed order, and of the division of a model.
#pragma once

#include "model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Consecutive parameter blocks of one array, numbered through all arrays.
struct Chunk {
  std::uint32_t first_block = 0, end_block = 0;
  std::uint64_t first = 0, end = 0;  ///< scalars in x
};

/// Blocks of one chunk of a model with this many blocks: a power of two from 16 on that makes at
/// most about a thousand chunks.
std::uint32_t blocks_per_chunk(std::uint64_t blocks);

/// Cuts each array into chunks, ascending. They depend on the arrays alone.
std::vector<Chunk> chunks_of(std::span<const ParameterArray> arrays);

/// The chunk of a block. The chunks ascend; returns their number if none has the block.
std::size_t find_chunk(std::span<const Chunk> chunks, std::uint32_t block);

}  // namespace topograd::runtime
