// Pose graphs with false loop closures.
#pragma once

#include "pose_graph_problem.hpp"

#include <optional>
#include <vector>

namespace topograd {

struct GncOptions {
  /// The most that a true edge adds to the objective. If empty: the 99 % quantile
  /// of χ² with 3 or 6 degrees of freedom, or less where the median of the edges says that the
  /// file's covariances are too large by one factor.
  std::optional<double> threshold = {};
  double growth = 1.4;   ///< of μ from round to round, > 1
  int max_rounds = 100;  ///< >= 1
};

struct GncResult {
  PoseGraph graph;  ///< with poses of the last relaxation, and without the edges below
  std::vector<PoseGraph::Edge> rejected;  ///< that count as false
  double threshold = 0;
  int rounds = 0;
};

/// Finds false loop closures by graduated non-convexity: minimises the truncated squares
/// Σ min(r², threshold) over the edges by weighted least squares, while the loss turns from convex
/// to truncated. Source: Yang, Antonante, Tzoumas, Carlone, Graduated Non-Convexity for Robust
/// Spatial Perception, RA-L 2020.
///
/// Edges between successive poses, the odometry, are never false, and the first round has no
/// others: a start from all edges ends with 276 of 1,978 false ones of parking-garage. Each round
/// solves the chordal relaxation, which has no wrong minima: with Gauss–Newton steps instead a
/// third of the true edges of manhattan are lost.
///
/// Throws Error{InvalidArgument} for options out of range, for a graph with sightings of
/// landmarks, which relaxations leave out, or with switches, and what with_start() throws. Cost:
/// some thirty rounds with two sparse factorisations each, on the CPU.
GncResult reject_false_edges(PoseGraph graph, PoseObjective objective,
                             const GncOptions& options = {});

}  // namespace topograd
