// arap(mesh): as-rigid-as-possible deformation with one rotation per vertex.
#include "arap.hpp"

#include "../../frontend/mat.hpp"
#include "../../ir/error.hpp"

#include <algorithm>
#include <limits>

namespace topograd::problems {
void add_rigid_edges(Problem& problem, const Parameters& p, const Parameters& a,
                     const TriangleMesh& mesh, const Uniform* weight, Slice slice) {
  const double* u = mesh.positions.data();
  std::uint64_t number = 0;
  for (const auto& [i, j] : directed_edges(mesh)) {
    if (!slice.has(number++)) continue;
    const Vec3 rest = {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1],
                       u[3 * i + 2] - u[3 * j + 2]};
    const Vec3 difference = p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), rest);
    problem.add_residual(weight == nullptr ? difference : difference * weight->value(),
                         {.label = "edge"});
  }
}

std::vector<Pin> arap_pins(const TriangleMesh& mesh) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i < mesh.vertex_count(); ++i) {
    low = std::min(low, mesh.positions[3 * i + 1]);
    high = std::max(high, mesh.positions[3 * i + 1]);
  }
  const double h = high - low;
  std::vector<Pin> pins;
  for (std::size_t i = 0; i < mesh.vertex_count(); ++i) {
    const double* u = &mesh.positions[3 * i];
    const bool bottom = u[1] <= low + 0.05 * h, top = u[1] >= high - 0.05 * h;
    if (!bottom && !top) continue;
    pins.push_back({static_cast<std::uint32_t>(i), {u[0], u[1], u[2] + (top ? h / 2 : 0.0)}});
  }
  return pins;
}

std::unique_ptr<Arap> arap(const TriangleMesh& mesh, Share share) {
  if (mesh.triangles.empty()) {
    throw Error(ErrorCode::InvalidArgument, "arap: expected a mesh with triangles, got none");
  }
  auto out = std::make_unique<Arap>();
  out->positions = mesh.positions;
  out->rotations.assign(mesh.positions.size(), 0.0);
  const Parameters p = out->problem.add_parameters(out->positions, 3, "positions");
  const Parameters a = out->problem.add_parameters(out->rotations, 3, "rotations");
  const std::uint64_t edges = directed_edges(mesh).size();
  const std::vector<Pin> pins = arap_pins(mesh);
  const Slice slice = share.slice(edges + pins.size());
  add_rigid_edges(out->problem, p, a, mesh, nullptr, slice);
  std::uint64_t number = edges;
  for (const auto& [vertex, c] : pins) {
    if (!slice.has(number++)) continue;
    out->problem.add_residual((p.vec3(vertex) - Vec3{c[0], c[1], c[2]}) * kPinWeight,
                              {.label = "pin"});
  }
  return out;
}

}  // namespace topograd::problems
