// Subjects of points: scenes of cameras, pose graphs, problem files.
#include "subjects.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::view {
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
