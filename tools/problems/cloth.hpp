// cloth(W): a square cloth over a ball, held at its corners.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::problems {

/// The problem and its memory.
struct Cloth {
  std::vector<double> positions;  ///< W² vertices, three coordinates each; y is up
  TriangleMesh start;
  Problem problem;
};

/// A cloth of 1 m with W × W vertices, whose constant corners lie 0.8 m apart, at the height of the
/// centre of a ball of 0.3 m. It starts above the ball, and falls on it. Vertices k = 0 .. W²−1 are
/// those of a grid, row by row. The energies, in joules:
///
///   stretch  St. Venant–Kirchhoff's of each triangle
///   bend     of each edge between two triangles, from the Laplacian of the flat cloth
///   weight   of each vertex; 0 at the height 0
///   ball     a quadratic penalty on the depth of each vertex in the ball
///
///   width  W >= 2
///
/// Throws Error{InvalidArgument} for a width below 2 or with more than 2³² scalars.
/// Source of the bending energy: Bergou et al., A Quadratic Bending Model for Inextensible Surfaces
/// (2006).
std::unique_ptr<Cloth> cloth(std::uint32_t width);

}  // namespace topograd::problems
