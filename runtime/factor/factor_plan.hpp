// The plan of a sparse Cholesky factorisation: everything that follows from the pattern alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fill_order.hpp"
#include "supernodes.hpp"

namespace topograd::runtime {

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
