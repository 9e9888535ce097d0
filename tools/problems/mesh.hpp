// Triangle meshes as the reference problems take them.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace topograd::problems {

struct TriangleMesh {
  std::vector<double> positions;  ///< x, y, z of each vertex
  std::vector<std::array<std::uint32_t, 3>> triangles;

  std::size_t vertex_count() const { return positions.size() / 3; }
};

/// Both directions of every edge, each once, in ascending order.
/// Throws Error{InvalidArgument} if a triangle names a vertex that is not there.
std::vector<std::pair<std::uint32_t, std::uint32_t>> directed_edges(const TriangleMesh& mesh);

}  // namespace topograd::problems
