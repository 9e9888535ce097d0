// Folds a sphere, or a mesh from a file, into pieces that can be unrolled: one of two energies for
// each vertex star, with L-BFGS. The gradient of the sphere is zero; the solver escapes from such
// points.
//
//   developable [SUBDIVISIONS|MESH.obj]
//
// Uses the backend in TOPOGRAD_BACKEND, or the fastest one.
#include <topograd/topograd.hpp>

#include "mesh_file.hpp"
#include "problems/mesh.hpp"

#include <array>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace tg = topograd;

// The smallest eigenvalue of the normals' covariance is 0 if they lie in a plane: Stein, Grinspun,
// Crane, Developability of Triangle Meshes (2018).
tg::Value flatness(const tg::Vec3& center, const std::vector<tg::Vec3>& ring) {
  tg::Mat3 covariance = tg::diagonal(tg::Vec3{0.0, 0.0, 0.0});
  for (std::size_t k = 0; k < ring.size(); ++k) {
    const tg::Vec3& next = ring[(k + 1) % ring.size()];
    tg::Vec3 normal = tg::triangle_normal(center, ring[k], next);
    covariance += outer(normal, normal) * tg::interior_angle(center, ring[k], next);
  }
  return tg::smallest_eigenvalue(covariance);
}

// The hinge energy of the same paper: the minimum, over all cuts of a star's triangles into two
// fans, of the sum of |N_f - N_g|^2 within each fan divided by its number of triangles. With S the
// sum of a fan's n unit normals, the sum for a fan is 2 n - 2 |S|^2 / n.
tg::Value fold(const tg::Vec3& center, const std::vector<tg::Vec3>& ring) {
  const std::size_t n = ring.size();
  std::vector<tg::Vec3> sums;  // of the first 1, 2, ... triangles
  for (std::size_t k = 0; k < n; ++k) {
    const tg::Vec3 normal = tg::triangle_normal(center, ring[k], ring[(k + 1) % n]);
    sums.push_back(k == 0 ? normal : sums.back() + normal);
  }
  std::vector<tg::Value> remains;
  for (std::size_t begin = 0; begin < n; ++begin) {
    for (std::size_t end = begin + 1; end < n; ++end) {
      const tg::Vec3 one = begin == 0 ? sums[end - 1] : sums[end - 1] - sums[begin - 1];
      const tg::Vec3 other = sums.back() - one;
      const auto size = static_cast<double>(end - begin), rest = static_cast<double>(n) - size;
      remains.push_back(tg::literal(2 * (size + rest)) - tg::literal(2 / size) * squared_norm(one) -
                        tg::literal(2 / rest) * squared_norm(other));
    }
  }
  return tg::min(std::span<const tg::Value>(remains));
}

using Energy = tg::Value (*)(const tg::Vec3& center, const std::vector<tg::Vec3>& ring);

// Returns true if the energy falls by half.
bool unroll(const tg::problems::TriangleMesh& mesh, Energy energy_of) {
  std::vector<std::uint32_t> indices, offsets = {0};
  for (const tg::problems::VertexStar& star : tg::problems::vertex_stars(mesh)) {
    if (!star.closed) continue;  // at a boundary
    indices.push_back(star.vertex);
    indices.insert(indices.end(), star.ring.begin(), star.ring.end());
    offsets.push_back(static_cast<std::uint32_t>(indices.size()));
  }

  std::vector<double> positions = mesh.positions;
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  const auto energy = [&](tg::Element e) {
    std::vector<tg::Vec3> ring;  // as many neighbours as the vertex has
    for (int k = 1; k < e.valence(); ++k) ring.push_back(e.vec3(x, k));
    return energy_of(e.vec3(x, 0), ring);
  };
  problem.add_energies(offsets.size() - 1, energy,
                       {.indices = indices, .offsets = offsets, .label = "star"});

  tg::Summary summary = tg::solve(problem, {.method = tg::Method::lbfgs, .max_iterations = 200});
  std::cout << summary.brief_report() << '\n' << summary.why << '\n';
  return summary.is_solution_usable() && summary.final_cost < summary.initial_cost / 2;
}

tg::problems::TriangleMesh read(const std::string& path) {
  const sample::Mesh file = sample::read_mesh(path);
  tg::problems::TriangleMesh mesh;
  for (const auto v : file.vertices())
    for (std::size_t k = 0; k < 3; ++k) mesh.positions.push_back(file.point(v)[k]);
  for (const auto f : file.faces()) {
    std::array<std::uint32_t, 3> corners;
    std::size_t k = 0;
    for (const auto v : f.vertices()) corners[k++] = static_cast<std::uint32_t>(v.idx());
    mesh.triangles.push_back(corners);
  }
  return mesh;
}

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  const tg::problems::TriangleMesh mesh =
      arguments.more() && !arguments.is_number()
          ? read(arguments.file())
          : tg::problems::icosphere(arguments.count<std::uint32_t>(1, 0, 8));
  bool good = true;
  for (const Energy energy : {flatness, fold}) good = unroll(mesh, energy) && good;
  return good ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "developable [SUBDIVISIONS|MESH.obj]", program);
}
