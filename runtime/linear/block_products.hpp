// Products of Jacobian blocks that a device sums into the blocks of a matrix.
#pragma once

#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Blocks of one shape, neighbours in their list.
struct BlockShape {
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t inner = 0;  ///< of products of two blocks: columns of the first one
  std::uint32_t first = 0, count = 0;
};

/// Contribution of one term to the blocks of a matrix: each is the sum of Jᵍᵀ Jʰ over its entries,
/// in their order, for the blocks g and h of an instance.
struct BlockProducts {
  std::size_t term = 0;
  std::vector<BlockShape> shapes;
  std::vector<std::uint32_t> outputs;  ///< by block: words that its plan defines
  std::vector<std::uint32_t> starts;   ///< first entry of each block, and the end
  std::vector<std::uint32_t> entries;  ///< 2 words: instance, groups of slots g | h << 16

  /// Appends blocks of one shape.
  ///
  ///   blocks      values from which the other two tell
  ///   outputs_of  the words of a block, an array
  ///   pairs_of    its pairs of blocks of an instance: a range of {instance, roles}
  template <class Blocks, class OutputsOf, class PairsOf>
  void add(std::uint32_t rows, std::uint32_t columns, const Blocks& blocks,
           const OutputsOf& outputs_of, const PairsOf& pairs_of) {
    const std::size_t first = starts.size(), words = outputs_of(blocks.front()).size();
    shapes.push_back({.rows = rows,
                      .columns = columns,
                      .first = static_cast<std::uint32_t>(first),
                      .count = static_cast<std::uint32_t>(blocks.size())});
    auto entry = static_cast<std::uint32_t>(entries.size() / 2);
    for (const auto& block : blocks) {
      starts.push_back(entry);
      entry += static_cast<std::uint32_t>(pairs_of(block).size());
    }
    entries.resize(2 * std::size_t{entry});
    outputs.resize(words * (first + blocks.size()));
    ir::parallel_for(std::size_t{0}, blocks.size(), [&](std::size_t k) {
      std::ranges::copy(outputs_of(blocks[k]), &outputs[words * (first + k)]);
      std::size_t to = 2 * std::size_t{starts[first + k]};
      for (const auto& pair : pairs_of(blocks[k])) {
        entries[to++] = pair.instance;
        entries[to++] = pair.roles;
      }
    });
  }
  /// Call after the last add().
  void end() { starts.push_back(static_cast<std::uint32_t>(entries.size() / 2)); }
};

}  // namespace topograd::runtime
