// Edges and vertices where triangles are not a surface.
#include "surface.hpp"

#include "../disjoint_sets.hpp"

#include <algorithm>

namespace topograd {
namespace {

/// A side of a triangle.
struct Side {
  std::uint64_t edge = 0;  ///< both vertices, the lower one first
  std::uint32_t triangle = 0;
  bool operator<(const Side& other) const {
    return edge != other.edge ? edge < other.edge : triangle < other.triangle;
  }
  std::uint32_t low() const { return static_cast<std::uint32_t>(edge >> 32); }
  std::uint32_t high() const { return static_cast<std::uint32_t>(edge); }
};

std::vector<Side> sorted_sides(const TriangleMesh& mesh) {
  std::vector<Side> sides;
  sides.reserve(3 * mesh.triangles.size());
  for (std::uint32_t t = 0; t < mesh.triangles.size(); ++t) {
    for (std::size_t k = 0; k < 3; ++k) {
      const auto [low, high] = std::minmax(mesh.triangles[t][k], mesh.triangles[t][(k + 1) % 3]);
      sides.push_back({std::uint64_t{low} << 32 | high, t});
    }
  }
  std::ranges::sort(sides, std::less());
  return sides;
}

/// Appends the vertices with more than one fan of triangles; `corners` joins those of one fan.
void append_vertices(const TriangleMesh& mesh, DisjointSets& corners, std::size_t count,
                     std::vector<NotManifold>& found) {
  // The first corner of each fan, by vertex.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> fans;
  for (std::uint32_t c = 0; c < count; ++c)
    if (corners.least(c) == c) fans.emplace_back(mesh.triangles[c / 3][c % 3], c / 3);
  std::ranges::sort(fans);
  for (std::size_t first = 0, last = 0; first < fans.size(); first = last) {
    for (last = first; last < fans.size() && fans[last].first == fans[first].first;) ++last;
    if (last - first == 1) continue;
    NotManifold& vertex = found.emplace_back(NotManifold{{fans[first].first}, {}});
    for (std::size_t k = first; k < last; ++k) vertex.triangles.push_back(fans[k].second);
  }
}

}  // namespace

std::vector<NotManifold> find_not_manifold(const TriangleMesh& mesh) {
  const std::vector<Side> sides = sorted_sides(mesh);
  DisjointSets corners(sides.size());
  const auto corner = [&](std::uint32_t triangle, std::uint32_t vertex) {
    const auto& t = mesh.triangles[triangle];
    return 3 * triangle + (t[0] == vertex ? 0u : t[1] == vertex ? 1u : 2u);
  };
  std::vector<NotManifold> found;
  for (std::size_t first = 0, last = 0; first < sides.size(); first = last) {
    const Side& side = sides[first];
    for (last = first; last < sides.size() && sides[last].edge == side.edge; ++last) {
      for (const std::uint32_t v : {side.low(), side.high()})
        corners.join(corner(side.triangle, v), corner(sides[last].triangle, v));
    }
    if (last - first <= 2) continue;
    NotManifold& edge = found.emplace_back(NotManifold{{side.low(), side.high()}, {}});
    for (std::size_t k = first; k < last; ++k) edge.triangles.push_back(sides[k].triangle);
  }
  append_vertices(mesh, corners, sides.size(), found);
  return found;
}

}  // namespace topograd
