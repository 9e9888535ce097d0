// The ten lines that an installation must be able to build and run.
#include <topograd/topograd.hpp>
#include <vector>

namespace tg = topograd;

int main() {
  std::vector<double> positions = {0, 0, 0, 2, 0, 0};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  problem.add_residual(norm(x.vec3(0) - x.vec3(1)) - 1.0);
  tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::cpu});
  return summary.final_cost < 1e-12 ? 0 : 1;
}
