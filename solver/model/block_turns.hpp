// Ways from a point at which single blocks on manifolds are at a maximum or a saddle of their cost.
#pragma once

#include "model.hpp"

#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// The end of a minimisation, as turned_blocks() reads it.
struct TurnFacts {
  std::span<const double> x;      ///< the point
  std::span<const double> start;  ///< of the minimisation
  double cost = 0;                ///< at the point
  double least = 0;               ///< gain that counts
  /// The last step gained about what the linear model promised: it says nothing about blocks that
  /// are still where they began.
  bool foretold = false;
};

/// The point with some blocks on manifolds turned, each to the lowest cost of the residuals that
/// read it along one direction of negative curvature; none if no block has one. Blocks that share a
/// residual are not turned together.
///
/// A normal that points the wrong way, and a turn by half a turn too much, have a gradient of zero,
/// and columns of the Jacobian that promise a minimum. Curvatures are differences of costs along
/// the tangents, a thousandth of the block's size apart.
///
/// Looks at blocks that have not moved, or at all of them unless the last step was foretold; those
/// with the largest costs first.
///
///   problem  in this process, its residuals expressions without branches
///
/// Cost: one evaluation of the residuals that read a block, then t (t + 1) of them for each block
/// of t tangents, as many as the problem has in all (at least 1,024), and some 20 more for each
/// block with negative curvature. Of more than 512 that read one block, as many stand for all.
std::optional<std::vector<double>> turned_blocks(const ProblemModel& problem, const TurnFacts& at);

}  // namespace topograd
