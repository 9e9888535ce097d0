// The elimination tree of a block graph in a given order, and the entries of each factored column.
#pragma once

#include "block_graph.hpp"
#include "forest.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Places in the order take the part of columns. The order is a postorder of the tree: descendants
/// of a place come directly before it.
///
/// Source: Liu, The Role of Elimination Trees in Sparse Factorization, SIAM J. Matrix Anal. Appl.
/// 11 (1990).
struct EliminationTree {
  /// Makes a postorder of the order, which leaves the factor's entries the same.
  ///
  ///   order  blocks by place
  ///
  /// Cost: nearly linear in the edges of the graph.
  EliminationTree(const BlockGraph& graph, std::vector<std::uint32_t> order);

  std::vector<std::uint32_t> order;     ///< blocks by place
  std::vector<std::uint32_t> parent;    ///< by place; kNoFront for roots
  std::vector<std::uint32_t> children;  ///< number of them, by place
  /// Rows of the factor in the first column of a place's block, the diagonal included; counted in
  /// columns of the matrix.
  std::vector<std::uint32_t> rows;
};

}  // namespace topograd::runtime
