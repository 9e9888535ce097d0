// Denoises a mesh: smooth MESH.obj OUT.obj [backend].
#include <topograd/topograd.hpp>

#include "mesh_file.hpp"

#include <cmath>
#include <iostream>
#include <vector>

namespace tg = topograd;
using sample::Mesh;

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  Mesh mesh = sample::read_mesh(arguments.file());
  const std::string out = arguments.text();
  std::vector<double> positions;
  for (const auto v : mesh.vertices()) {
    const double noise = 0.004 * std::sin(12.9898 * v.idx());
    for (int k = 0; k < 3; ++k) positions.push_back(mesh.point(v)[std::size_t(k)] + noise);
  }

  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  for (std::size_t v = 0; v < mesh.n_vertices(); ++v) {
    const double* seen = &positions[3 * v];  // stay near the measured positions
    problem.add_residual(x.vec3(v) - tg::Vec3{seen[0], seen[1], seen[2]}, {.label = "fit"});
  }
  const auto point = [&](OpenMesh::VertexHandle v) { return x.vec3(std::size_t(v.idx())); };
  for (const auto e : mesh.edges()) {
    if (e.is_boundary()) continue;
    const auto left = e.h0(), right = e.h1();
    const tg::Vec3 a = point(left.from()), b = point(left.to());
    // Cotangents of the angles opposite the edge, at the current positions.
    const tg::Value weight =
        (cotangent(point(left.next().to()), a, b) + cotangent(point(right.next().to()), a, b)) *
        tg::literal(0.5);
    problem.add_residual((a - b) * sqrt(max(weight, tg::literal(1e-4))), {.label = "smoothing"});
  }

  tg::SolverOptions options;
  options.backend = tg::parse_backend(arguments.text("automatic"));
  const tg::Summary summary = tg::solve(problem, options);
  std::cout << summary.full_report();
  for (const auto v : mesh.vertices()) {
    const double* p = &positions[3 * std::size_t(v.idx())];
    mesh.set_point(v, Mesh::Point(float(p[0]), float(p[1]), float(p[2])));
  }
  sample::write_mesh(out, mesh);
  return summary.is_solution_usable() ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "smooth MESH.obj OUT.obj [automatic|cpu|vulkan]", program);
}
