// Finds edges and vertices at which triangles are not a surface.
#pragma once

#include "mesh.hpp"

#include <cstdint>
#include <vector>

namespace topograd {

/// An edge where more than two triangles meet, or a vertex whose triangles are more than one fan.
struct NotManifold {
  std::vector<std::uint32_t> vertices;   ///< one or two
  std::vector<std::uint32_t> triangles;  ///< of the edge; the first of each fan
};

/// Edges in ascending order, then vertices. Vertices are judged as if the triangles of each edge
/// were connected, however many they are. Orientations play no part.
///
///   mesh  whose triangles have three different vertices that exist
///
/// Cost: a sort of the edges.
std::vector<NotManifold> find_not_manifold(const TriangleMesh& mesh);

}  // namespace topograd
