// As-rigid-as-possible deformation of a mesh: arap MESH.obj OUT.obj [backend].
#include <topograd/topograd.hpp>

#include "mesh_file.hpp"

#include <algorithm>
#include <iostream>
#include <vector>

namespace tg = topograd;
using sample::Mesh;

static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  Mesh mesh = sample::read_mesh(arguments.file());
  const std::string out = arguments.text();
  std::vector<double> rest;
  double low = 1e300, high = -1e300;
  for (const auto v : mesh.vertices()) {
    const auto& u = mesh.point(v);
    rest.insert(rest.end(), {u[0], u[1], u[2]});
    low = std::min<double>(low, u[1]);
    high = std::max<double>(high, u[1]);
  }
  const auto corner = [&](int i, int k) { return rest[3 * std::size_t(i) + std::size_t(k)]; };

  std::vector<double> positions = rest, rotations(rest.size(), 0.0);
  tg::Problem problem;
  tg::Parameters p = problem.add_parameters(positions, 3);  // where each vertex is
  tg::Parameters a = problem.add_parameters(rotations, 3);  // how its neighbourhood turned
  for (const auto e : mesh.halfedges()) {
    const int i = e.from().idx(), j = e.to().idx();
    const tg::Vec3 u = {corner(i, 0) - corner(j, 0), corner(i, 1) - corner(j, 1),
                        corner(i, 2) - corner(j, 2)};
    problem.add_residual(p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), u));
  }
  for (const auto v : mesh.vertices()) {
    const int i = v.idx();
    const double height = (corner(i, 1) - low) / (high - low);
    if (height > 0.05 && height < 0.95) continue;
    const double pull = height >= 0.95 ? (high - low) / 2 : 0.0;  // feet stay, head moves
    const tg::Vec3 target = {corner(i, 0), corner(i, 1), corner(i, 2) + pull};
    problem.add_residual((p.vec3(i) - target) * 10.0);
  }

  tg::SolverOptions options{.max_iterations = 100};
  options.backend = tg::parse_backend(arguments.text("automatic"));
  tg::Summary summary = tg::solve(problem, options);
  std::cout << summary.full_report();

  for (const auto v : mesh.vertices()) {
    const double* x = &positions[3 * std::size_t(v.idx())];
    mesh.set_point(v, Mesh::Point(float(x[0]), float(x[1]), float(x[2])));
  }
  sample::write_mesh(out, mesh);
  return summary.is_solution_usable() ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "arap MESH.obj OUT.obj [automatic|cpu|vulkan]", program);
}
