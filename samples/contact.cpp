// A sheet that is as rigid as possible falls on a ball and the floor, and enters neither.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace tg = topograd;

int main() {
  constexpr std::uint32_t kSide = 15;
  constexpr double kRadius = 0.5, kFloor = -0.2, kPull = 0.3;
  std::vector<double> rest;
  for (std::uint32_t i = 0; i < kSide; ++i)
    for (std::uint32_t j = 0; j < kSide; ++j)
      rest.insert(rest.end(), {2.0 * i / (kSide - 1) - 1.1, 2.0 * j / (kSide - 1) - 0.9, 0.52});
  std::vector<double> positions = rest, rotations(rest.size(), 0.0);

  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(positions, 3, "positions");
  const tg::Parameters a = problem.add_parameters(rotations, 3, "rotations");

  // Edges keep their shape up to a rotation of each vertex.
  std::vector<std::uint32_t> edges, vertices;
  std::vector<double> differences;
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    for (const auto& [i, j] : {std::pair(from, to), std::pair(to, from)}) {
      edges.insert(edges.end(), {i, j});
      for (int k = 0; k < 3; ++k) differences.push_back(rest[3 * i + k] - rest[3 * j + k]);
    }
  };
  for (std::uint32_t i = 0; i < kSide; ++i) {
    for (std::uint32_t j = 0; j < kSide; ++j) {
      const std::uint32_t v = i * kSide + j;
      vertices.push_back(v);
      if (i + 1 < kSide) add(v, v + kSide);
      if (j + 1 < kSide) add(v, v + 1);
      if (i + 1 < kSide && j + 1 < kSide) add(v, v + kSide + 1);
    }
  }
  problem.add_residuals(edges.size() / 2,
                        [=](tg::Element e) {
                          return e.vec3(p, 0) - e.vec3(p, 1) - rotate(e.vec3(a, 0), e.data_vec3(0));
                        },
                        {.indices = edges, .data = differences, .label = "edge"});
  // Everything is pulled down, and a little to where it was.
  problem.add_residuals(
      vertices.size(),
      [=](tg::Element e) {
        const tg::Vec3 at = e.vec3(p, 0);
        return tg::Vec3{0.3 * (at.x - e.data(0)), 0.3 * (at.y - e.data(1)), kPull * (at.z + 1.0)};
      },
      {.indices = vertices, .data = rest, .label = "pull"});

  // Distances to the ball and to the floor, which must not be negative.
  problem.add_inequality(vertices.size(),
                         [=](tg::Element e) { return norm(e.vec3(p, 0)) - kRadius; },
                         {.indices = vertices, .label = "ball"});
  problem.add_inequality(vertices.size(), [=](tg::Element e) { return e.vec3(p, 0).z - kFloor; },
                         {.indices = vertices, .label = "floor"});

  const tg::Summary summary =
      tg::solve(problem, {.constraint_tolerance = 1e-7, .kkt_tolerance = 1e-4});

  double deepest = 0;
  for (const std::uint32_t v : vertices) {
    const double* at = positions.data() + 3 * std::size_t{v};
    deepest = std::max({deepest, kRadius - std::hypot(at[0], at[1], at[2]), kFloor - at[2]});
  }
  std::printf("%s after %d minimisations, cost %.6f -> %.6f\n",
              tg::name(summary.termination).data(), summary.constrained.outer_iterations,
              summary.initial_cost, summary.final_cost);
  bool touches = summary.constrained.constraints.size() == 2;
  for (const tg::ConstraintSummary& one : summary.constrained.constraints) {
    std::printf("%-6s %3llu of %llu vertices touch it\n", one.label.c_str(),
                static_cast<unsigned long long>(one.active),
                static_cast<unsigned long long>(one.rows));
    touches = touches && one.active > 3 && one.active < one.rows;
  }
  std::printf("deepest vertex %.1e inside\n", deepest);
  return touches && deepest < 1e-6 && summary.termination == tg::Termination::CONVERGENCE ? 0 : 1;
}
