// A sheet of springs, pinned at two corners and stretched: plain scalar code, one kernel for all
// edges.
#include <topograd/topograd.hpp>

#include "sample.hpp"

#include <iostream>
#include <string>
#include <vector>

namespace tg = topograd;

struct Edge {
  std::size_t a, b;
  double rest;
};

static int program(sample::Arguments& arguments) {
  constexpr std::size_t kWidth = 20;
  const tg::Backend backend = tg::parse_backend(arguments.text("automatic"));
  std::vector<double> positions;
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < kWidth * kWidth; ++k) {
    const std::size_t i = k % kWidth, j = k / kWidth;
    positions.insert(positions.end(), {double(i), double(j), 0.01 * double(k % 7)});
    if (i + 1 < kWidth) edges.push_back({k, k + 1, 1.0});
    if (j + 1 < kWidth) edges.push_back({k, k + kWidth, 1.0});
  }

  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);  // n blocks of 3
  for (const Edge& e : edges) {
    problem.add_residual(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest);  // all of these are one kernel
  }
  positions[3 * (kWidth * kWidth - 1)] += 5.0;  // pull a corner and hold it there
  problem.set_constant(x, 0);
  problem.set_constant(x, kWidth * kWidth - 1);

  tg::Summary summary = tg::solve(problem, {.backend = backend, .max_iterations = 200});
  std::cout << summary.full_report();
  return summary.is_solution_usable() && summary.final_cost < summary.initial_cost ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "springs [automatic|cpu|vulkan]", program);
}
