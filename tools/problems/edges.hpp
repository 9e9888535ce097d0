// Residuals that preserve the edge lengths of a mesh.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

#include <cstdint>
#include <vector>

namespace topograd::problems {

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
