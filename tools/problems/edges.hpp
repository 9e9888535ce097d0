// Residuals that keep the edges of a mesh at their lengths.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"

#include <cstdint>
#include <vector>

namespace topograd::problems {

struct EdgeLength {
  std::uint32_t a, b;
  double length;
};
/// Each edge of the mesh once, a < b, in ascending order. Throws as directed_edges().
std::vector<EdgeLength> edge_lengths(const TriangleMesh& mesh);

/// Adds ‖x_a − x_b‖ − L for each edge of the mesh, L its length there, times `weight`. Throws as
/// directed_edges().
void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight = nullptr);

}  // namespace topograd::problems
