// Starts of pose graphs.
#pragma once

#include "../../ir/enum_table.hpp"
#include "pose_graph.hpp"

#include <string_view>

namespace topograd {

/// The start of a solve.
///
///   file      where the file puts the poses and landmarks; others are chained from them
///   odometry  poses chained along a spanning tree: edges between successive poses first
///   chordal   the relaxation of the chordal objective: two linear least-squares problems, for
///             matrices without the condition that they turn, and for positions. Source: Carlone et
///             al., Initialization Techniques for 3D SLAM, ICRA 2015.
enum class PoseStart { file, odometry, chordal };
TG_ENUM_NAMES(PoseStart)
/// Throws Error{InvalidArgument} that lists the names.
inline PoseStart parse_pose_start(std::string_view text) {
  return parse_enum<PoseStart>("start", text);
}

/// The graph with other poses; anchors() stay where the graph has them. A piece without anchors
/// has a pose with a prior as its root. Landmarks that the start does not keep are put where their
/// first sightings or priors say, or where directions meet.
///
/// Throws what solve() throws, for weights that are not finite. Cost of `chordal`: two sparse
/// factorisations on the CPU.
PoseGraph with_start(PoseGraph graph, PoseStart start);

}  // namespace topograd
