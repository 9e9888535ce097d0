// Edge lengths as residuals.
#include "edges.hpp"

#include "../../frontend/vec.hpp"

#include <cmath>

namespace topograd::problems {

std::vector<EdgeLength> edge_lengths(const TriangleMesh& mesh) {
  std::vector<EdgeLength> out;
  const double* u = mesh.positions.data();
  for (const auto& [a, b] : directed_edges(mesh)) {
    if (a > b) continue;
    out.push_back({a, b,
                   std::hypot(u[3 * a] - u[3 * b], u[3 * a + 1] - u[3 * b + 1],
                              u[3 * a + 2] - u[3 * b + 2])});
  }
  return out;
}

void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight, Slice slice) {
  std::uint64_t number = 0;
  for (const EdgeLength& e : edge_lengths(mesh)) {
    if (!slice.has(number++)) continue;
    const Value stretch = norm(x.vec3(e.a) - x.vec3(e.b)) - e.length;
    problem.add_residual(weight == nullptr ? stretch : weight->value() * stretch,
                         {.label = "edge"});
  }
}

}  // namespace topograd::problems
