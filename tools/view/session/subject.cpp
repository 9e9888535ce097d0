// Subjects: the pulls of handles, and as-rigid-as-possible meshes.
#include "subject.hpp"

#include "../../problems/arap.hpp"

#include <algorithm>
#include <utility>

namespace topograd::view {

Pulls add_pulls(Problem& problem, const Parameters& points, double weight) {
  const std::size_t count = points.size();
  const std::vector<double> zeros(3 * count);
  Pulls pulls{.targets = problem.add_data(zeros, 3),
              .switches = problem.add_data(std::span(zeros).first(count), 1),
              .weight = problem.add_uniform(weight)};
  for (std::size_t v = 0; v < count; ++v) {
    const Value strength = pulls.weight.value() * pulls.switches[v];
    problem.add_residual((points.vec3(v) - pulls.targets.vec3(v)) * strength, {.label = "handle"});
  }
  return pulls;
}

Subject arap_subject(const problems::TriangleMesh& mesh) {
  struct Memory {
    std::vector<double> positions, rotations;
    Problem problem;
  };
  auto memory = std::make_shared<Memory>();
  memory->positions = mesh.positions;
  memory->rotations.assign(mesh.positions.size(), 0.0);
  Subject out{.name = "arap", .memory = memory, .problem = &memory->problem};
  Problem& problem = memory->problem;
  out.points = problem.add_parameters(memory->positions, 3, "positions");
  const Parameters rotations = problem.add_parameters(memory->rotations, 3, "rotations");
  const Uniform rigidity = problem.add_uniform(1);
  problems::add_rigid_edges(problem, out.points, rotations, mesh, &rigidity);
  out.pulls = add_pulls(problem, out.points);
  out.sliders = {{"handles", out.pulls.weight, 0, 100}, {"rigidity", rigidity, 0.01, 10}};
  std::array<Handle, 2> ends;
  for (const auto& [vertex, target] : problems::arap_pins(mesh)) {
    const bool moved = target[2] != mesh.positions[3 * vertex + 2];
    Handle& handle = ends[moved ? 1 : 0];
    if (handle.vertices.empty()) handle.anchor = vertex;
    handle.vertices.push_back(vertex);
    handle.targets.push_back(target);
  }
  for (Handle& handle : ends)
    if (!handle.vertices.empty()) out.handles.push_back(std::move(handle));
  out.shown = mesh.vertex_count();
  out.show = [from = memory.get()](std::span<double> to) {
    std::ranges::copy(from->positions, to.begin());
  };
  out.triangles = mesh.triangles;
  return out;
}

}  // namespace topograd::view
