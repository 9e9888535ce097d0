// Edge lengths as residuals.
#include "problems/edges.hpp"

#include <topograd/frontend/vec.hpp>

#include <cmath>

namespace topograd::problems {

void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight) {
  const double* u = mesh.positions.data();
  for (const auto& [a, b] : directed_edges(mesh)) {
    if (a > b) continue;
    const double length =
        std::hypot(u[3 * a] - u[3 * b], u[3 * a + 1] - u[3 * b + 1], u[3 * a + 2] - u[3 * b + 2]);
    const Value stretch = norm(x.vec3(a) - x.vec3(b)) - length;
    problem.add_residual(weight == nullptr ? stretch : weight->value() * stretch,
                         {.label = "edge"});
  }
}

}  // namespace topograd::problems
