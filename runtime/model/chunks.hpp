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

/// Most chunks of a model with fewer arrays than that. More chunks divide better among many ranks,
/// and make every scalar sum longer.
constexpr std::uint64_t kMostChunks = 4096;

/// Blocks of one chunk of an array: the least power of two that has at least 16 scalars and gives
/// each of the model's arrays its share of kMostChunks. Few large blocks, such as cameras, are cut
/// finer than many small ones, since as many residuals read them.
std::uint32_t blocks_per_chunk(const ParameterArray& array, std::size_t arrays);

/// Cuts each array into chunks, ascending. They depend on the arrays alone.
std::vector<Chunk> chunks_of(std::span<const ParameterArray> arrays);

/// The chunk of a block. The chunks ascend; returns their number if none has the block.
std::size_t find_chunk(std::span<const Chunk> chunks, std::uint32_t block);

}  // namespace topograd::runtime
