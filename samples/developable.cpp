// Folds a sphere into pieces that can be unrolled: an energy for each vertex star, by L-BFGS.
//
//   developable [SUBDIVISIONS]
//
// Runs where TOPOGRAD_BACKEND says, or where it is fastest.
#include <topograd/topograd.hpp>

#include "problems/mesh.hpp"

#include <cstdlib>
#include <iostream>
#include <vector>

namespace tg = topograd;

// The smallest eigenvalue of the normals' covariance is 0 where they lie in a plane: Stein,
// Grinspun, Crane, Developability of Triangle Meshes (2018).
tg::Value flatness(const tg::Vec3& center, const std::vector<tg::Vec3>& ring) {
  tg::Mat3 covariance = tg::diagonal(tg::Vec3{0.0, 0.0, 0.0});
  for (std::size_t k = 0; k < ring.size(); ++k) {
    const tg::Vec3& next = ring[(k + 1) % ring.size()];
    tg::Vec3 normal = tg::triangle_normal(center, ring[k], next);
    covariance += outer(normal, normal) * tg::interior_angle(center, ring[k], next);
  }
  return tg::smallest_eigenvalue(covariance);
}

int main(int argc, char** argv) {
  const int subdivisions = argc > 1 ? std::atoi(argv[1]) : 1;
  tg::problems::TriangleMesh mesh =
      tg::problems::icosphere(static_cast<std::uint32_t>(subdivisions));
  tg::problems::perturb(mesh.positions, 1e-3, 1);  // a sphere pulls to no side

  std::vector<std::uint32_t> indices, offsets = {0};
  for (const tg::problems::VertexStar& star : tg::problems::vertex_stars(mesh)) {
    indices.push_back(star.vertex);
    indices.insert(indices.end(), star.ring.begin(), star.ring.end());
    offsets.push_back(static_cast<std::uint32_t>(indices.size()));
  }

  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(mesh.positions, 3);
  const auto energy = [&](tg::Element e) {
    std::vector<tg::Vec3> ring;  // as many neighbours as the vertex has
    for (int k = 1; k < e.valence(); ++k) ring.push_back(e.vec3(x, k));
    return flatness(e.vec3(x, 0), ring);
  };
  problem.add_energies(offsets.size() - 1, energy,
                       {.indices = indices, .offsets = offsets, .label = "star"});

  tg::Summary summary = tg::solve(problem, {.method = tg::Method::lbfgs, .max_iterations = 200});
  std::cout << summary.brief_report() << '\n' << summary.why << '\n';
  return summary.is_solution_usable() && summary.final_cost < summary.initial_cost / 2 ? 0 : 1;
}
