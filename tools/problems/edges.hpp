// Residuals that keep the edges of a mesh at their lengths.
#pragma once

#include "problems/mesh.hpp"

#include <topograd/frontend/problem.hpp>

namespace topograd::problems {

/// Adds ‖x_a − x_b‖ − L for each edge of the mesh, L its length there, times `weight`. Throws as
/// directed_edges().
void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight = nullptr);

}  // namespace topograd::problems
