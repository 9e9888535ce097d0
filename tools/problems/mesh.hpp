// Triangle meshes of the reference problems, and residuals that preserve their edge lengths.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../api/formats/mesh/mesh.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

namespace topograd::problems {

using topograd::TriangleMesh;

/// The icosahedron of the golden ratio with each triangle split into four `subdivisions` times, and
/// all vertices on the unit sphere. Throws Error{InvalidArgument} for more than 8 subdivisions.
TriangleMesh icosphere(std::uint32_t subdivisions);

/// Splits each triangle into four at the midpoints of its edges; old vertices keep their numbers.
/// Throws Error{InvalidArgument} if a triangle refers to a vertex that does not exist.
TriangleMesh subdivide(const TriangleMesh& mesh);

/// Moves each coordinate by a number in [-amplitude, amplitude], the same on every machine.
void perturb(std::vector<double>& positions, double amplitude, std::uint64_t seed);

/// The same mesh with its vertices and triangles in a random order given by `seed`. Throws
/// Error{InvalidArgument} if a triangle refers to a vertex that does not exist.
TriangleMesh shuffle(const TriangleMesh& mesh, std::uint64_t seed);

/// An edge of two triangles: (from, to, left) and (to, from, right) if their orientations agree.
struct InteriorEdge {
  std::uint32_t from, to, left, right;
};
/// Each edge of exactly two different triangles once, in ascending order; from < to. Triangles with
/// a repeated corner are ignored. Throws Error{InvalidArgument} as above.
std::vector<InteriorEdge> interior_edges(const TriangleMesh& mesh);

/// Neighbours of one vertex, counter-clockwise: all around it, or from one boundary edge to the
/// other. If the triangles are not a fan, the two other corners of each triangle, one after the
/// other.
struct VertexStar {
  std::uint32_t vertex = 0;
  std::vector<std::uint32_t> ring;
  bool closed = true;  ///< no edge at the vertex belongs to only one triangle
  bool fan = true;

  std::size_t faces() const {
    if (!fan) return ring.size() / 2;
    return closed ? ring.size() : ring.size() - 1;
  }
};
/// Selects which stars are accepted.
enum class Stars {
  /// Rejects other stars, edges of more than two triangles, and edges of two triangles with
  /// different orientations.
  fans,
  any
};
/// The stars of all vertices with triangles, by vertex. Triangles with a repeated corner are
/// ignored. Throws Error{InvalidArgument} as above, and for stars that `stars` does not accept.
std::vector<VertexStar> vertex_stars(const TriangleMesh& mesh, Stars stars = Stars::fans);

/// Both directions of every edge between two vertices, each once, in ascending order. Throws
/// Error{InvalidArgument} if a triangle refers to a vertex that does not exist.
std::vector<std::pair<std::uint32_t, std::uint32_t>> directed_edges(const TriangleMesh& mesh);

struct EdgeLength {
  std::uint32_t a, b;
  double length;
};
/// Each edge of the mesh once, a < b, in ascending order. Throws what directed_edges() throws.
std::vector<EdgeLength> edge_lengths(const TriangleMesh& mesh);

/// Adds ‖x_a − x_b‖ − L for each edge of the mesh, where L is its length there, multiplied by
/// `weight`. Throws what directed_edges() throws.
///
///   slice  of the edges, in their order
void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight = nullptr, Slice slice = {0, ~std::uint64_t{0}});

}  // namespace topograd::problems
