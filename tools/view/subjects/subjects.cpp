// The reference problems and files that can be pulled at: meshes, and points with connections.
#include "subjects.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../problems/arap.hpp"
#include "../../problems/mesh.hpp"
#include "../../problems/smooth.hpp"
#include "../../problems/springs.hpp"

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

namespace {

/// A box around most of the points: their middle, and three times the distance within which nine
/// tenths of them are.
struct Window {
  Point low, high;

  explicit Window(std::span<const double> positions) {
    constexpr double kMostOf = 0.9, kWide = 3;
    for (std::size_t c = 0; c < 3; ++c) {
      std::vector<double> x;
      for (std::size_t k = c; k < positions.size(); k += 3) x.push_back(positions[k]);
      const auto at = [&](double share) {
        const auto k = static_cast<std::ptrdiff_t>(share * static_cast<double>(x.size() - 1));
        std::nth_element(x.begin(), x.begin() + k, x.end());
        return x[static_cast<std::size_t>(k)];
      };
      const double first = at((1 - kMostOf) / 2), last = at((1 + kMostOf) / 2), middle = at(0.5);
      low[c] = middle - kWide * (last - first);
      high[c] = middle + kWide * (last - first);
    }
  }
  void clamp(std::span<double> positions) const {
    for (std::size_t k = 0; k < positions.size(); ++k)
      positions[k] = std::clamp(positions[k], low[k % 3], high[k % 3]);
  }
};

/// Residuals of scenes and graphs are up to hundreds of pixels or standard deviations.
constexpr double kMostPointWeight = 1000;

/// The number of the array of a file that is shown: the named one, or the first with blocks of
/// three numbers, else of two, else the one with the most blocks.
std::size_t shown_array(const ProblemFile& file, const std::string& name) {
  const auto at = [&](auto&& fits) {
    const auto found = std::ranges::find_if(file.parameters, fits);
    return static_cast<std::size_t>(found - file.parameters.begin());
  };
  const std::size_t none = file.parameters.size();
  if (!name.empty()) {
    const std::size_t named = at([&](const ProblemFile::Array& a) { return a.name == name; });
    if (named != none) return named;
    std::string names;
    for (const ProblemFile::Array& a : file.parameters)
      names += (names.empty() ? "" : ", ") + a.name;
    throw Error(ErrorCode::InvalidArgument,
                "view: expected --array to be one of " + names + ", got \"" + name + "\"");
  }
  for (const std::uint32_t width : {3u, 2u}) {
    const std::size_t found = at([&](const ProblemFile::Array& a) { return a.width == width; });
    if (found != none) return found;
  }
  const auto blocks = [](const ProblemFile::Array& a) { return a.values.size() / a.width; };
  return static_cast<std::size_t>(std::ranges::max_element(file.parameters, {}, blocks) -
                                  file.parameters.begin());
}

/// Lines between points that blocks of residuals join. Blocks that read more than four points are
/// not drawn.
std::vector<std::array<std::uint32_t, 2>> lines_of(const Problem& problem,
                                                   const Parameters& points) {
  constexpr std::size_t kMostPoints = 4;
  const std::uint32_t first = points.offset(), width = static_cast<std::uint32_t>(points.width());
  std::set<std::array<std::uint32_t, 2>> lines;
  std::vector<std::uint32_t> read;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    const ir::Batch& batch = problem.batch(t);
    for (std::size_t row = 0; row < batch.size(); ++row) {
      read.clear();
      for (std::uint32_t column = 0; column < batch.parameter_columns(); ++column) {
        const std::uint32_t scalar = batch.index(row, column);
        if (scalar < first || (scalar - first) / width >= points.size()) continue;
        const std::uint32_t point = (scalar - first) / width;
        if (std::ranges::find(read, point) == read.end()) read.push_back(point);
      }
      if (read.size() > kMostPoints) continue;
      for (std::size_t a = 0; a < read.size(); ++a)
        for (std::size_t b = a + 1; b < read.size(); ++b)
          lines.insert({std::min(read[a], read[b]), std::max(read[a], read[b])});
    }
  }
  return {lines.begin(), lines.end()};
}

}  // namespace

Subject bundle_subject(BundleScene scene, const BundleAdjustmentOptions& options) {
  auto memory = std::make_shared<BundleAdjustment>(std::move(scene), options);
  Problem& problem = memory->problem();
  Subject out = make_subject(problem, memory->points(), {});
  out.name = "bundle";
  out.memory = memory;
  const std::size_t points = out.points.size(), cameras = memory->cameras().size();
  const double* const x = values_of(problem, memory->points());
  const double* const poses = values_of(problem, memory->cameras());
  out.sliders.front().high = kMostPointWeight;
  out.shown = points + cameras;
  out.show = [=, window = Window({x, 3 * points}),
              now = BundleScene()](std::span<double> to) mutable {
    now.cameras.assign(poses, poses + BundleScene::kCameraSize * cameras);
    std::copy_n(x, 3 * points, to.begin());
    for (std::size_t k = 0; k < cameras; ++k)
      std::ranges::copy(now.center(k), to.begin() + static_cast<std::ptrdiff_t>(3 * (points + k)));
    window.clamp(to);
  };
  return out;
}

Subject pose_graph_subject(PoseGraph graph, const PoseGraphOptions& options) {
  auto memory = std::make_shared<PoseGraphProblem>(std::move(graph), options);
  Connections edges;
  for (const PoseGraph::Edge& edge : memory->graph().edges)
    edges.lines.push_back({edge.from, edge.to});
  Subject out = make_subject(memory->problem(), memory->positions(), std::move(edges));
  out.name = "pose-graph";
  out.sliders.front().high = kMostPointWeight;
  out.memory = memory;
  return out;
}

Subject file_subject(std::unique_ptr<ProblemFile> file, const std::string& array) {
  const std::shared_ptr<ProblemFile> memory = std::move(file);
  const Parameters points = memory->problem.parameters(shown_array(*memory, array));
  Subject out = make_subject(memory->problem, points,
                             {.triangles = {}, .lines = lines_of(memory->problem, points)});
  out.name = memory->title.empty() ? "problem" : memory->title;
  out.memory = memory;
  const int steps = out.options.max_iterations;
  out.options = memory->options;
  out.options.max_iterations = std::min(out.options.max_iterations, steps);
  return out;
}

}  // namespace topograd::view
