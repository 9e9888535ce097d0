// Residuals from functors in Ceres' style, without Ceres' interface: a chain of springs.
#include <topograd/topograd.hpp>

#include <iostream>
#include <vector>

namespace tg = topograd;

struct Spring {
  template <class T>
  bool operator()(const T* a, const T* b, T* residual) const {
    const T dx = a[0] - b[0], dy = a[1] - b[1];
    residual[0] = sqrt(dx * dx + dy * dy) - rest;
    return true;
  }
  double rest;
};

int main() {
  std::vector<double> positions = {0, 0, 0.5, 0, 1.2, 0, 2.5, 0};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 2);
  for (std::size_t k = 0; k + 1 < x.size(); ++k) {
    tg::add_residual_block<1, 2, 2>(problem, Spring{1.0}, {x.block(k), x.block(k + 1)});
  }
  problem.set_constant(x, 0);
  tg::Summary summary = tg::solve(problem, {.backend = tg::Backend::cpu});
  std::cout << summary.brief_report() << "\n";
  return summary.final_cost < 1e-10 && problem.topology_count() == 1 ? 0 : 1;
}
