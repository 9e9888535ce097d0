// A planar mesh whose boundary is pulled and whose triangles never turn over: a barrier method.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::uint32_t kSide = 17;  // vertices along an edge of the square

struct Mesh {
  std::vector<double> rest;  // vertex after vertex
  std::vector<std::uint32_t> edges, triangles, handles;
};

Mesh make_mesh() {
  Mesh mesh;
  for (std::uint32_t i = 0; i < kSide; ++i) {
    for (std::uint32_t j = 0; j < kSide; ++j) {
      const std::uint32_t v = i * kSide + j;
      mesh.rest.insert(mesh.rest.end(), {double(i), double(j)});
      if (i + 1 < kSide) mesh.edges.insert(mesh.edges.end(), {v, v + kSide});
      if (j + 1 < kSide) mesh.edges.insert(mesh.edges.end(), {v, v + 1});
      if (i + 1 == kSide || j + 1 == kSide) continue;
      for (const std::uint32_t w : {v, v + kSide, v + kSide + 1, v, v + kSide + 1, v + 1})
        mesh.triangles.push_back(w);
    }
  }
  return mesh;
}

double least_area(const Mesh& mesh, const std::vector<double>& x) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < mesh.triangles.size(); t += 3) {
    const auto at = [&](int corner, int k) {
      return x[2 * std::size_t{mesh.triangles[t + static_cast<std::size_t>(corner)]} + k];
    };
    least = std::min(least, (at(1, 0) - at(0, 0)) * (at(2, 1) - at(0, 1)) -
                                (at(2, 0) - at(0, 0)) * (at(1, 1) - at(0, 1)));
  }
  return least / 2;
}

/// The mesh's springs, and a vertex in the middle that is pulled far beyond its neighbours.
tg::Parameters add_springs(tg::Problem& problem, const Mesh& mesh, std::vector<double>& x) {
  const tg::Parameters p = problem.add_parameters(x, 2);
  problem.add_residuals(mesh.edges.size() / 2,
                        [=](tg::Element e) { return norm(e.vec2(p, 1) - e.vec2(p, 0)) - 1.0; },
                        {.indices = mesh.edges, .label = "spring"});
  constexpr std::uint32_t kHalf = kSide / 2;
  problem.add_residual(4.0 * (p.vec2(kHalf * kSide + kHalf) - tg::Vec2{kSide - 3.0, kHalf + 0.3}));
  for (std::uint32_t k = 0; k < kSide; ++k)
    for (const std::uint32_t v : {k, k + (kSide - 1) * kSide, k * kSide, k * kSide + kSide - 1})
      problem.set_constant(p, v);
  return p;
}

}  // namespace

int main() {
  const Mesh mesh = make_mesh();

  std::vector<double> free = mesh.rest;
  tg::Problem without;
  add_springs(without, mesh, free);
  tg::solve(without);
  std::printf("without constraints the least area is %.3f\n", least_area(mesh, free));

  std::vector<double> x = mesh.rest;
  tg::Problem problem;
  const tg::Parameters p = add_springs(problem, mesh, x);
  constexpr double kLeast = 0.05;  // of a triangle; 0.5 at rest
  problem.add_inequality(mesh.triangles.size() / 3,
                         [=](tg::Element e) {
                           const tg::Vec2 a = e.vec2(p, 1) - e.vec2(p, 0);
                           const tg::Vec2 b = e.vec2(p, 2) - e.vec2(p, 0);
                           return (a.x * b.y - a.y * b.x) / 2.0 - kLeast;
                         },
                         {.indices = mesh.triangles, .label = "area"});

  double least = least_area(mesh, x);
  tg::SolverOptions options{.method = tg::Method::barrier, .kkt_tolerance = 1e-6};
  options.update_state_every_iteration = true;
  options.callback = [&](const tg::IterationSummary&) {
    least = std::min(least, least_area(mesh, x));
    return tg::CallbackReturn::SOLVER_CONTINUE;
  };
  const tg::Summary summary = tg::solve(problem, options);

  const tg::ConstraintSummary& area = summary.constrained.constraints.at(0);
  std::printf("%s after %d minimisations and %d steps, cost %.6f\n",
              tg::name(summary.termination).data(), summary.constrained.outer_iterations,
              summary.num_iterations(), summary.final_cost);
  std::printf("least area of all steps %.6f, %llu of %llu triangles are as small as they may be\n",
              least, static_cast<unsigned long long>(area.active),
              static_cast<unsigned long long>(area.rows));
  const bool good = least_area(mesh, free) < 0 && least > kLeast && area.active > 0;
  return good && summary.termination == tg::Termination::CONVERGENCE ? 0 : 1;
}
