// Subjects on meshes and grids.
#include "subjects.hpp"

#include "../../../frontend/value/math.hpp"
#include "../../problems/arap.hpp"
#include "../../problems/edges.hpp"
#include "../../problems/smooth.hpp"
#include "../../problems/springs.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace topograd::view {
namespace {

/// Positions of vertices, and a problem with them.
struct Vertices {
  std::vector<double> positions;
  Problem problem;
};

/// A subject that shows these positions as triangles.
Subject on_vertices(const char* name, const std::shared_ptr<Vertices>& memory) {
  Subject out{.name = name, .memory = memory, .problem = &memory->problem};
  out.points = memory->problem.add_parameters(memory->positions, 3, "positions");
  out.shown = out.points.size();
  out.show = [from = memory.get()](std::span<double> to) {
    std::ranges::copy(from->positions, to.begin());
  };
  return out;
}

void add_weight(Subject& subject, const char* name, const Uniform& weight, double low,
                double high) {
  subject.sliders.push_back({name, weight, low, high});
}

void add_handles(Subject& subject, double weight = kHandleWeight) {
  subject.pulls = add_pulls(*subject.problem, subject.points, weight);
  add_weight(subject, "handles", subject.pulls.weight, 0, kMostHandleWeights * weight);
}

constexpr double kWeakest = 0.01, kStrongest = 10;

}  // namespace

Subject arap_subject(const problems::TriangleMesh& mesh) {
  return arap_subject(mesh, problems::arap_pins(mesh));
}

Subject arap_subject(const problems::TriangleMesh& mesh, const std::vector<problems::Pin>& pins) {
  struct Rotating : Vertices {
    std::vector<double> rotations;
  };
  auto memory = std::make_shared<Rotating>();
  memory->positions = mesh.positions;
  memory->rotations.assign(mesh.positions.size(), 0.0);
  Subject out = on_vertices("arap", memory);
  Problem& problem = *out.problem;
  const Parameters rotations = problem.add_parameters(memory->rotations, 3, "rotations");
  const Uniform rigidity = problem.add_uniform(1);
  problems::add_rigid_edges(problem, out.points, rotations, mesh, &rigidity);
  add_handles(out);
  add_weight(out, "rigidity", rigidity, kWeakest, kStrongest);
  std::array<Handle, 2> ends;
  for (const auto& [vertex, target] : pins) {
    const bool moved = !std::ranges::equal(
        target, std::span(mesh.positions).subspan(std::size_t{3} * vertex, target.size()));
    Handle& handle = ends[moved ? 1 : 0];
    if (handle.vertices.empty()) handle.anchor = vertex;
    handle.vertices.push_back(vertex);
    handle.targets.push_back(target);
  }
  for (Handle& handle : ends)
    if (!handle.vertices.empty()) out.handles.push_back(std::move(handle));
  out.connections.triangles = mesh.triangles;
  return out;
}

Subject smooth_subject(const problems::TriangleMesh& mesh, double noise) {
  problems::directed_edges(mesh);  // throws for triangles with vertices that do not exist
  auto memory = std::make_shared<Vertices>();
  memory->positions = problems::noisy_positions(mesh, noise);
  problems::check_cotangents({memory->positions, mesh.triangles});
  Subject out = on_vertices("smooth", memory);
  Problem& problem = *out.problem;
  const Uniform fit = problem.add_uniform(1), smoothing = problem.add_uniform(1);
  for (std::size_t v = 0; v < mesh.vertex_count(); ++v) {
    const double* a = &memory->positions[3 * v];
    problem.add_residual((out.points.vec3(v) - Vec3{a[0], a[1], a[2]}) * fit.value(),
                         {.label = "fit"});
  }
  problems::add_cotangent_smoothing(problem, out.points, mesh, &smoothing);
  add_handles(out);
  add_weight(out, "fit", fit, kWeakest, kStrongest);
  add_weight(out, "smoothing", smoothing, kWeakest, kStrongest);
  out.connections.triangles = mesh.triangles;
  return out;
}

Subject developable_subject(const problems::TriangleMesh& mesh, problems::Developability energy) {
  constexpr double kLengths = 3, kHandles = 30;
  constexpr int kLbfgsSteps = 50;
  auto memory = std::make_shared<Vertices>();
  memory->positions = mesh.positions;
  Subject out = on_vertices("developable", memory);
  const Uniform folds = out.problem->add_uniform(1), lengths = out.problem->add_uniform(kLengths);
  problems::add_developability(*out.problem, out.points, mesh, energy, &folds);
  for (const auto& [a, b, length] : problems::edge_lengths(mesh)) {
    const Value stretch = norm(out.points.vec3(a) - out.points.vec3(b)) / length - 1.0;
    out.problem->add_residual(stretch * lengths.value(), {.label = "edge"});
  }
  add_handles(out, kHandles);
  add_weight(out, "folds", folds, kWeakest, kStrongest);
  add_weight(out, "lengths", lengths, kWeakest, 10 * kStrongest);
  out.connections.triangles = mesh.triangles;
  out.options.method = Method::lbfgs;
  out.options.max_iterations = kLbfgsSteps;
  return out;
}

Subject springs_subject(std::uint32_t width) {
  const problems::SpringGrid grid = problems::spring_grid(width);
  auto memory = std::make_shared<Vertices>();
  memory->positions = grid.x;
  Subject out = on_vertices("springs", memory);
  problems::add_springs(*out.problem, out.points, grid.springs);
  add_handles(out);
  for (std::uint32_t j = 0; j + 1 < width; ++j) {
    for (std::uint32_t i = 0; i + 1 < width; ++i) {
      const std::uint32_t k = j * width + i;
      out.connections.triangles.push_back({k, k + 1, k + width + 1});
      out.connections.triangles.push_back({k, k + width + 1, k + width});
    }
  }
  return out;
}

}  // namespace topograd::view
