// A sheet of springs on a page in the browser, where people pull at it while it is solved.
#include <topograd/topograd.hpp>
#include <topograd/view/session.hpp>

#include "sample.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

namespace tg = topograd;

static int program(sample::Arguments& arguments) {
  constexpr std::uint32_t kWidth = 30;
  const int seconds = arguments.count(600);
  std::vector<double> positions;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<std::array<std::uint32_t, 3>> triangles;
  for (std::uint32_t k = 0; k < kWidth * kWidth; ++k) {
    const std::uint32_t i = k % kWidth, j = k / kWidth;
    positions.insert(positions.end(), {double(i), double(j), 0.01 * double(k % 7)});
    if (i + 1 < kWidth) edges.push_back({k, k + 1});
    if (j + 1 < kWidth) edges.push_back({k, k + kWidth});
    if (i + 1 == kWidth || j + 1 == kWidth) continue;
    edges.push_back({k, k + kWidth + 1});
    triangles.push_back({k, k + 1, k + kWidth + 1});
    triangles.push_back({k, k + kWidth + 1, k + kWidth});
  }

  tg::Problem problem;
  const tg::Parameters x = problem.add_parameters(positions, 3);
  const tg::Uniform stiffness = problem.add_uniform(1);
  for (const auto& [a, b] : edges) {
    const double* p = &positions[3 * a];
    const double* q = &positions[3 * b];
    const double rest = std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
    problem.add_residual(stiffness.value() * (norm(x.vec3(a) - x.vec3(b)) - rest));
  }
  problem.set_constant(x, 0);
  problem.set_constant(x, kWidth - 1);

  tg::view::Session session(problem, x, {.triangles = triangles, .lines = {}},
                            {.name = "sheet", .sliders = {{"stiffness", stiffness, 0.1, 10}}});
  std::cout << session.url() << std::endl;
  session.wait(seconds);
  session.close();  // positions has the last frame
  std::cout << "cost without handles " << tg::Evaluator(problem).cost() << "\n";
  return 0;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "live_view [SECONDS]", program); }
