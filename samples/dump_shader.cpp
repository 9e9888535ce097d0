// Prints the shaders of a residual: its values, and its gradient by two accumulation strategies.
#include <topograd/topograd.hpp>

#include <iostream>
#include <vector>

namespace tg = topograd;

int main() {
  std::vector<double> positions = {0, 0, 0, 1, 0, 0, 0, 1, 0};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  problem.add_residual(norm(x.vec3(0) - x.vec3(1)) - 1.0, {.label = "edge_length"});
  problem.add_residual(norm(x.vec3(1) - x.vec3(2)) - 1.5, {.label = "edge_length"});

  std::cout << tg::topology_table(problem) << "\n";
  std::cout << tg::source(problem, {.kernel = "residual", .precision = tg::Precision::f32}) << "\n";
  std::cout << tg::source(problem, {.kernel = "gradient",
                                    .accumulation = tg::Accumulation::atomic_cas,
                                    .precision = tg::Precision::f32})
            << "\n";
  std::cout << tg::source(problem, {.kernel = "gradient", .precision = tg::Precision::f32});
  return 0;
}
