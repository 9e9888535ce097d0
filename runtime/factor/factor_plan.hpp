// The plan of a sparse Cholesky factorisation: everything that follows from the pattern alone.
#pragma once

#include "fill_order.hpp"
#include "tile.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// A dense matrix of the multifrontal method. It gathers entries of the matrix and what its
/// children left, eliminates its pivots, and leaves an update matrix for its parent.
///
/// Its rows are numbered with the pivots first, then those below, each rounded up to whole tiles.
/// The pivots' columns are its panel of the factor: tiles of kTile rows, each with its `pivots`
/// columns one after the other. The update matrix is a lower triangle of tiles of rows, of which
/// tile t has kTile (t + 1) columns.
struct Front {
  std::uint32_t first = 0;          ///< position of its first pivot in the order
  std::uint32_t pivots = 0;         ///< positions first .. first + pivots − 1
  std::uint32_t below = 0;          ///< further rows
  std::uint32_t parent = kNoFront;  ///< has a greater number
  std::uint32_t level = 0;          ///< 1 + the highest level of its children; 0 for leaves
  std::uint32_t children = 0, children_end = 0;  ///< in FactorPlan::children
  std::uint32_t rows = 0;                        ///< in FactorPlan::rows and parent_rows
  std::uint32_t entries = 0, entries_end = 0;    ///< in FactorPlan::entries
  std::uint64_t panel = 0;                       ///< in the numbers of the factor
  std::uint64_t update = 0;                      ///< in the numbers of the workspace
  std::uint64_t right = 0;                       ///< in those of a solve: rows(), with gaps

  std::uint32_t pivot_rows() const { return tiled(pivots); }
  std::uint32_t tiles() const { return (tiled(pivots) + tiled(below)) / kTile; }
  std::uint64_t panel_size() const { return std::uint64_t{tiles()} * kTile * pivots; }
  std::uint64_t update_size() const { return triangle_of_tiles(tiled(below) / kTile); }

  /// Numbers of a lower triangle of `t` tiles of rows.
  static constexpr std::uint64_t triangle_of_tiles(std::uint64_t t) {
    return std::uint64_t{kTile} * kTile * (t * (t + 1) / 2);
  }
};

/// Plain data without pointers, the same for every backend and any number of threads.
///
/// Source: Duff, Reid, The Multifrontal Solution of Indefinite Sparse Symmetric Linear Equations,
/// ACM TOMS 9 (1983); Liu, The Multifrontal Method for Sparse Matrix Solution, SIAM Review 34
/// (1992).
struct FactorPlan {
  /// One entry of the matrix and its position in the front's panel.
  struct Entry {
    Entry() {}  // NOLINT(modernize-use-equals-default): several threads fill a list of them
    Entry(std::uint32_t from, std::uint32_t to) : value(from), at(to) {}

    std::uint32_t value;  ///< in the values of the lower triangle
    std::uint32_t at;
  };

  std::vector<std::uint32_t> order;  ///< columns of the matrix by position
  std::vector<Front> fronts;         ///< in a postorder: children come before their parent
  std::vector<std::uint32_t> children;
  std::vector<std::uint32_t> rows;  ///< positions of a front's rows below the pivots, ascending
  std::vector<std::uint32_t> parent_rows;  ///< the numbers of these rows in the parent
  std::vector<Entry> entries;

  /// Fronts that one thread works through in order, begin .. end − 1: whole subtrees, so that they
  /// need nothing from one another. The other fronts follow by level.
  struct Task {
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<Task> tasks;                  ///< those that take longest come first
  std::vector<std::uint32_t> level_starts;  ///< in level_fronts, and its size
  std::vector<std::uint32_t> level_fronts;  ///< fronts outside of tasks, by level

  std::uint64_t factor_size = 0;     ///< numbers of the factor, as stored
  std::uint64_t workspace_size = 0;  ///< numbers of all update matrices that live at one time
  std::uint64_t right_size = 0;      ///< numbers of a solve's workspace
  double nonzeros = 0;               ///< entries of the factor's columns, without padding
  double operations = 0;             ///< Σ over columns of (entries of the column)²
};

/// A pure function of the pattern. Throws Error{Unsupported} if an offset within a front does not
/// fit 32 bits.
FactorPlan make_factor_plan(const LowerPattern& lower);

/// Plans with the given order of the graph's blocks.
FactorPlan make_factor_plan(const LowerPattern& lower, std::vector<std::uint32_t> order);

/// Divides the tree into tasks and levels, and places the update matrices so that those that live
/// at one time do not overlap. Neither depends on a number of threads.
void schedule(FactorPlan& plan);

}  // namespace topograd::runtime
