// Pose graphs as meshes for pictures.
#pragma once

#include "../../problems/mesh.hpp"

#include "../../../api/formats/pose_graph.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::command {

/// Edges of a graph and sightings of landmarks that are drawn, as thin bars. They are chosen once,
/// so that pictures before and after a solve show the same ones.
class ShownGraph {
 public:
  /// At most kMostShown edges, evenly chosen.
  explicit ShownGraph(const PoseGraph& graph);

  static constexpr std::size_t kMostShown = 20'000;

  /// They are between the graph's present poses and landmarks. Graphs of the plane lie in that of
  /// the picture, others stand on their x and y.
  problems::TriangleMesh mesh(const PoseGraph& graph) const;
  /// For each vertex of mesh() the number of its edge; sightings follow edges.
  std::vector<double> values(std::span<const double> edges) const;

 private:
  std::vector<std::uint32_t> edges_;
};

}  // namespace topograd::command
