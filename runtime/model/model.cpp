// Leaf values of a term's instances, as rows.
#include "model.hpp"

#include <algorithm>

namespace topograd::runtime {

Rows rows_of(const Model& model, const Term& term, std::span<const double> x, std::size_t first,
             std::size_t count) {
  const ir::Batch& batch = *term.batch;
  const auto columns = [&](std::uint32_t width, auto read) {
    Columns out(width, std::vector<double>(count));
    for (std::uint32_t c = 0; c < width; ++c) {
      for (std::size_t i = 0; i < count; ++i) out[c][i] = read(first + i, c);
    }
    return out;
  };
  const std::uint32_t slots = batch.parameter_columns();
  return {.count = count,
          .parameters =
              columns(slots, [&](std::size_t i, std::uint32_t c) { return x[batch.index(i, c)]; }),
          .data = columns(batch.data_columns(),
                          [&](std::size_t i, std::uint32_t c) { return batch.data(i, c); }),
          .uniforms = columns(batch.uniform_columns(),
                              [&](std::size_t i, std::uint32_t c) {
                                return model.uniforms[batch.index(i, slots + c)];
                              }),
          .tangents = {},
          .seeds = {}};
}

std::uint32_t blocks_per_chunk(const ParameterArray& array, std::size_t arrays) {
  constexpr std::uint64_t kLeastScalars = 16;
  const std::uint64_t most = std::max<std::uint64_t>(kMostChunks / arrays, 1);
  std::uint32_t size = 1;
  while (size * std::uint64_t{array.width} < kLeastScalars || array.blocks > most * size) size *= 2;
  return size;
}

std::vector<Chunk> chunks_of(std::span<const ParameterArray> arrays) {
  std::vector<Chunk> chunks;
  std::uint32_t number = 0;
  for (const ParameterArray& array : arrays) {
    const std::uint32_t size = blocks_per_chunk(array, arrays.size());
    for (std::uint64_t k = 0; k < array.blocks; k += size) {
      const std::uint64_t end = std::min<std::uint64_t>(k + size, array.blocks);
      chunks.push_back({.first_block = number + static_cast<std::uint32_t>(k),
                        .end_block = number + static_cast<std::uint32_t>(end),
                        .first = array.offset + k * array.width,
                        .end = array.offset + end * array.width});
    }
    number += static_cast<std::uint32_t>(array.blocks);
  }
  return chunks;
}

std::size_t find_chunk(std::span<const Chunk> chunks, std::uint32_t block) {
  const auto after = [](std::uint32_t b, const Chunk& chunk) { return b < chunk.first_block; };
  const auto next = std::upper_bound(chunks.begin(), chunks.end(), block, after);
  if (next == chunks.begin() || block >= (next - 1)->end_block) return chunks.size();
  return static_cast<std::size_t>(next - chunks.begin()) - 1;
}

}  // namespace topograd::runtime
