// Subjects of points: scenes of cameras, pose graphs.
#include "subjects.hpp"

#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace topograd::view {
namespace {

/// The numbers of an array of unknowns.
const double* values_of(const Problem& problem, const Parameters& x) {
  const std::uint32_t offset = problem.offset_of("view", {x, 0});
  for (const ParameterArray& array : problem.arrays())
    if (array.offset == offset) return array.values;
  return nullptr;
}

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

}  // namespace

Subject bundle_subject(BundleScene scene) {
  auto memory = std::make_shared<BundleAdjustment>(std::move(scene));
  Subject out{.name = "bundle", .memory = memory, .problem = &memory->problem()};
  out.points = memory->points();
  const std::size_t points = out.points.size(), cameras = memory->cameras().size();
  const double *const x = values_of(*out.problem, memory->points()), *const poses = values_of(
                                                                         *out.problem,
                                                                         memory->cameras());
  out.pulls = add_pulls(*out.problem, out.points);
  constexpr double kMost = 1000;
  out.sliders = {{"handles", out.pulls.weight, 0, kMost}};
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
  Subject out{.name = "pose-graph", .memory = memory, .problem = &memory->problem()};
  out.points = memory->positions();
  if (out.points.width() != 3)
    throw Error(ErrorCode::Unsupported,
                "view: expected a pose graph in space, got one in the plane");
  out.pulls = add_pulls(*out.problem, out.points);
  constexpr double kMost = 1000;
  out.sliders = {{"handles", out.pulls.weight, 0, kMost}};
  out.shown = out.points.size();
  const double* const x = values_of(*out.problem, out.points);
  out.show = [=, count = 3 * out.shown](std::span<double> to) {
    std::copy_n(x, count, to.begin());
  };
  for (const PoseGraph::Edge& edge : memory->graph().edges)
    out.lines.push_back({edge.from, edge.to});
  return out;
}

}  // namespace topograd::view
