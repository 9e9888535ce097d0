// Edges of triangle meshes.
#include "problems/mesh.hpp"

#include <topograd/ir/error.hpp>

#include <algorithm>
#include <string>

namespace topograd::problems {

std::vector<std::pair<std::uint32_t, std::uint32_t>> directed_edges(const TriangleMesh& mesh) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  edges.reserve(6 * mesh.triangles.size());
  for (const auto& t : mesh.triangles) {
    for (const std::uint32_t v : t) {
      if (v < mesh.vertex_count()) continue;
      throw Error(ErrorCode::InvalidArgument, "mesh: a triangle names vertex " + std::to_string(v) +
                                                  " of " + std::to_string(mesh.vertex_count()));
    }
    for (int k = 0; k < 3; ++k) {
      const std::uint32_t a = t[static_cast<std::size_t>(k)];
      const std::uint32_t b = t[static_cast<std::size_t>((k + 1) % 3)];
      edges.emplace_back(a, b);
      edges.emplace_back(b, a);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace topograd::problems
