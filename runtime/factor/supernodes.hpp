// Blocks that are eliminated together, as one dense front.
#pragma once

#include "elimination_tree.hpp"
#include "tile.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Rounded up to whole tiles.
constexpr std::uint32_t tiled(std::uint32_t n) { return (n + kTile - 1) / kTile * kTile; }

/// A guess of the time that a front takes, in nanoseconds of one core. Decides which supernodes are
/// merged and how the tree is divided among threads; results depend on it, and it on nothing that
/// is measured at run time.
///
///   pivots  columns that the front eliminates
///   below   rows that remain
double front_time(std::uint32_t pivots, std::uint32_t below);

/// Supernodes in a postorder of their tree.
struct Supernodes {
  struct Node {
    std::uint32_t pivots = 0, below = 0;  ///< columns of the matrix; rows below them
    std::uint32_t parent = kNoFront;
    std::uint32_t begin = 0, end = 0;  ///< in `blocks`
  };
  std::vector<Node> nodes;
  std::vector<std::uint32_t> blocks;  ///< all blocks, in the order of elimination
};

/// Chains of the tree with one pattern, merged with children where the zeros that come in take less
/// time than one more front. Children come in the order that needs least memory.
///
/// Source: Ashcraft, Grimes, The Influence of Relaxed Supernode Partitions on the Multifrontal
/// Method, ACM TOMS 15 (1989); Liu, The Multifrontal Method for Sparse Matrix Solution, SIAM Review
/// 34 (1992), section 6.1.
Supernodes find_supernodes(const BlockGraph& graph, const EliminationTree& tree);

}  // namespace topograd::runtime
