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

/// The icosahedron of the golden ratio with each triangle cut into four `subdivisions` times, all
/// vertices on the unit sphere. Throws Error{InvalidArgument} for more than 8 subdivisions.
TriangleMesh icosphere(std::uint32_t subdivisions);

/// Each triangle cut into four at the midpoints of its edges; old vertices keep their numbers.
/// Throws Error{InvalidArgument} if a triangle names a vertex that is not there.
TriangleMesh subdivide(const TriangleMesh& mesh);

/// Moves each coordinate by a number in [-amplitude, amplitude], the same on every machine.
void perturb(std::vector<double>& positions, double amplitude, std::uint64_t seed);

/// The same mesh with its vertices and triangles in an order drawn from `seed`.
/// Throws Error{InvalidArgument} if a triangle names a vertex that is not there.
TriangleMesh shuffle(const TriangleMesh& mesh, std::uint64_t seed);

/// An edge of two triangles: (from, to, left) and (to, from, right).
struct InteriorEdge {
  std::uint32_t from, to, left, right;
};
/// Each such edge once, in ascending order; from < to. Throws Error{InvalidArgument} as above, and
/// where more than two triangles meet in an edge or two of them are not oriented alike.
std::vector<InteriorEdge> interior_edges(const TriangleMesh& mesh);

/// Neighbours of one vertex, counter-clockwise: all around it, or from one boundary edge to the
/// other.
struct VertexStar {
  std::uint32_t vertex = 0;
  std::vector<std::uint32_t> ring;
  bool closed = true;

  std::size_t faces() const { return closed ? ring.size() : ring.size() - 1; }
};
/// The stars of all vertices that have triangles, by vertex. Throws Error{InvalidArgument} as
/// interior_edges, and where the triangles at a vertex are more than one fan.
std::vector<VertexStar> vertex_stars(const TriangleMesh& mesh);

/// Both directions of every edge, each once, in ascending order.
/// Throws Error{InvalidArgument} if a triangle names a vertex that is not there.
std::vector<std::pair<std::uint32_t, std::uint32_t>> directed_edges(const TriangleMesh& mesh);

}  // namespace topograd::problems
