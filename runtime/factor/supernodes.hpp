// The elimination tree of a block graph in a given order, and supernodes, each one dense front.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fill_order.hpp"
#include "tile.hpp"

namespace topograd::runtime {

inline constexpr std::uint32_t kNoFront = ~std::uint32_t{0};

/// The children of each node, in one list: ascending, until they are sorted otherwise.
struct Forest {
  /// parent  of each node; kNoFront for roots
  explicit Forest(std::span<const std::uint32_t> parent) : starts(parent.size() + 1) {
    const auto n = static_cast<std::uint32_t>(parent.size());
    for (std::uint32_t k = 0; k < n; ++k) {
      if (parent[k] == kNoFront) {
        roots.push_back(k);
      } else {
        ++starts[parent[k] + 1];
      }
    }
    for (std::uint32_t k = 0; k < n; ++k) starts[k + 1] += starts[k];
    items.resize(starts.back());
    std::vector<std::uint32_t> next(starts.begin(), starts.end() - 1);
    for (std::uint32_t k = 0; k < n; ++k)
      if (parent[k] != kNoFront) items[next[parent[k]]++] = k;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(starts.size()) - 1; }
  std::uint32_t count(std::uint32_t node) const { return starts[node + 1] - starts[node]; }
  std::span<std::uint32_t> children(std::uint32_t node) {
    return std::span(items).subspan(starts[node], count(node));
  }

  std::vector<std::uint32_t> starts;  ///< in items, and its size
  std::vector<std::uint32_t> items;
  std::vector<std::uint32_t> roots;  ///< ascending
};

/// Nodes so that descendants come directly before their ancestor. Children and roots keep the order
/// of the forest's lists.
inline std::vector<std::uint32_t> postorder(const Forest& forest) {
  std::vector<std::uint32_t> order, open, next(forest.starts.begin(), forest.starts.end() - 1);
  order.reserve(forest.size());
  for (const std::uint32_t root : forest.roots) {
    open.push_back(root);
    while (!open.empty()) {
      const std::uint32_t k = open.back();
      if (next[k] < forest.starts[k + 1]) {
        open.push_back(forest.items[next[k]++]);
      } else {
        order.push_back(k);
        open.pop_back();
      }
    }
  }
  return order;
}

/// Positions in the order are the columns. The order is a postorder of the tree: descendants
/// of a position come directly before it.
///
/// Source: Liu, The Role of Elimination Trees in Sparse Factorization, SIAM J. Matrix Anal. Appl.
/// 11 (1990).
struct EliminationTree {
  /// Makes a postorder of the order, which leaves the factor's entries the same.
  ///
  ///   order  blocks by position
  ///
  /// Cost: nearly linear in the edges of the graph.
  EliminationTree(const BlockGraph& graph, std::vector<std::uint32_t> order);

  std::vector<std::uint32_t> order;     ///< blocks by position
  std::vector<std::uint32_t> parent;    ///< by position; kNoFront for roots
  std::vector<std::uint32_t> children;  ///< number of them, by position
  /// Rows of the factor in the first column of a position's block, the diagonal included; counted
  /// in columns of the matrix.
  std::vector<std::uint32_t> rows;
};

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
