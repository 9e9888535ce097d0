// Four terms for one mesh, with new weights between solves, which compiles nothing.
#include <topograd/topograd.hpp>

#include "problems/mesh.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

namespace tg = topograd;

int main() {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  tg::problems::TriangleMesh mesh = tg::problems::icosphere(1);
  tg::problems::perturb(mesh.positions, 0.05, 1);
  const std::vector<double> start = mesh.positions;

  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(mesh.positions, 3);
  tg::Uniform flat = problem.add_uniform(1), length = problem.add_uniform(1),
              smooth = problem.add_uniform(0.1), fit = problem.add_uniform(1);

  for (const auto& [a, b] : tg::problems::directed_edges(mesh)) {
    if (a > b) continue;
    const double rest = std::hypot(start[3 * a] - start[3 * b], start[3 * a + 1] - start[3 * b + 1],
                                   start[3 * a + 2] - start[3 * b + 2]);
    problem.add_residual(length * (norm(x.vec3(a) - x.vec3(b)) - rest), {.label = "length"});
  }
  for (std::size_t v = 0; v < mesh.vertex_count(); v += 10) {
    const tg::Vec3 target = {start[3 * v], start[3 * v + 1], start[3 * v + 2]};
    problem.add_residual((x.vec3(v) - target) * fit.value(), {.label = "fit"});
  }
  for (const tg::problems::InteriorEdge& e : tg::problems::interior_edges(mesh)) {
    const tg::Vec3 a = x.vec3(e.from), b = x.vec3(e.to);
    // Cotangents of the angles opposite the edge, at the current positions.
    const tg::Value weight =
        (cotangent(x.vec3(e.left), a, b) + cotangent(x.vec3(e.right), a, b)) * tg::literal(0.5);
    problem.add_residual((a - b) * (smooth * sqrt(max(weight, tg::literal(1e-4)))),
                         {.label = "smooth"});
  }
  for (const tg::problems::VertexStar& star : tg::problems::vertex_stars(mesh)) {
    std::vector<tg::Vec3> ring;
    for (const std::uint32_t v : star.ring) ring.push_back(x.vec3(v));
    const tg::Vec3 center = x.vec3(star.vertex);
    tg::Mat3 normals = tg::diagonal(tg::Vec3{0.0, 0.0, 0.0});
    for (std::size_t k = 0; k < ring.size(); ++k) {
      const tg::Vec3& next = ring[(k + 1) % ring.size()];
      const tg::Vec3 n = tg::triangle_normal(center, ring[k], next);
      normals += outer(n, n) * tg::interior_angle(center, ring[k], next);
    }
    problem.add_energy(flat * tg::smallest_eigenvalue(normals), {.label = "flat"});
  }
  std::printf("%zu topologies\n", problem.topology_count());

  bool good = true;
  std::uint64_t compiled = 0;
  const struct {
    const char* wish;
    double flat, length, smooth, fit;
  } weights[] = {{"all of them", 1, 1, 0.1, 1}, {"flat", 10, 1, 0, 0.1}, {"round", 0, 1, 2, 1}};
  for (const auto& w : weights) {
    problem.set(flat, w.flat);
    problem.set(length, w.length);
    problem.set(smooth, w.smooth);
    problem.set(fit, w.fit);
    // A noisy mesh is at no saddle point, so converged solves need no escapes, nor their kernels.
    const tg::Summary summary = tg::solve(
        problem, {.linear_solver = tg::LinearSolver::pcg, .max_iterations = 100, .max_escapes = 0});
    std::printf("%-12s cost %8.4f -> %8.4f, %3d steps, %llu shaders compiled\n", w.wish,
                summary.initial_cost, summary.final_cost, summary.num_iterations(),
                static_cast<unsigned long long>(summary.shaders_compiled));
    good = good && summary.is_solution_usable() && summary.final_cost < summary.initial_cost;
    if (&w != weights) compiled += summary.shaders_compiled;
  }
  return good && compiled == 0 ? 0 : 1;
}
