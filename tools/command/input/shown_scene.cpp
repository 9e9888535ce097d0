// Scenes as meshes for pictures.
#include "shown_scene.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace topograd::command {
namespace {

using Point = std::array<double, 3>;

constexpr double kKept = 0.9;         // share of the points that the window holds along each axis
constexpr double kMargin = 0.25;      // of the window's size, on each side
constexpr double kPointSize = 0.002;  // of the window's diagonal
constexpr double kCameraSize = 0.008;

constexpr std::array<std::array<std::uint32_t, 3>, 8> kOctahedron = {
    {{0, 2, 4}, {2, 1, 4}, {1, 3, 4}, {3, 0, 4}, {2, 0, 5}, {1, 2, 5}, {3, 1, 5}, {0, 3, 5}}};
constexpr std::size_t kCorners = 6;

std::vector<std::uint32_t> choose(std::size_t count, std::size_t most) {
  std::vector<std::uint32_t> chosen;
  const std::size_t step = (count + most - 1) / std::max<std::size_t>(most, 1);
  for (std::size_t k = 0; k < count; k += std::max<std::size_t>(step, 1))
    chosen.push_back(static_cast<std::uint32_t>(k));
  return chosen;
}

Point point_of(const BundleScene& scene, std::uint32_t k) {
  const std::size_t at = 3 * std::size_t{k};
  return {scene.points[at], scene.points[at + 1], scene.points[at + 2]};
}

void add_octahedron(problems::TriangleMesh& mesh, const Point& center, double radius) {
  const auto first = static_cast<std::uint32_t>(mesh.vertex_count());
  for (std::size_t corner = 0; corner < kCorners; ++corner) {
    Point at = center;
    at[corner / 2] += corner % 2 == 0 ? radius : -radius;
    mesh.positions.insert(mesh.positions.end(), at.begin(), at.end());
  }
  for (const auto& [a, b, c] : kOctahedron)
    mesh.triangles.push_back({first + a, first + b, first + c});
}

}  // namespace

ShownScene::ShownScene(const BundleScene& scene)
    : cameras_(choose(scene.camera_count(), kMostShown)),
      points_(choose(scene.point_count(), kMostShown)) {
  for (std::size_t d = 0; d < 3; ++d) {
    std::vector<double> along;
    for (const std::uint32_t k : points_) along.push_back(point_of(scene, k)[d]);
    std::ranges::sort(along);
    if (along.empty()) continue;
    const auto last = static_cast<double>(along.size() - 1);
    low_[d] = along[static_cast<std::size_t>(last * (1 - kKept) / 2)];
    high_[d] = along[static_cast<std::size_t>(last * (1 + kKept) / 2)];
    const double margin = kMargin * (high_[d] - low_[d]);
    low_[d] -= margin;
    high_[d] += margin;
  }
}

bool ShownScene::is_within(const std::array<double, 3>& at) const {
  for (std::size_t d = 0; d < 3; ++d)
    if (!(low_[d] <= at[d] && at[d] <= high_[d])) return false;
  return true;
}

problems::TriangleMesh ShownScene::mesh(const BundleScene& scene) const {
  const double diagonal = std::hypot(high_[0] - low_[0], high_[1] - low_[1], high_[2] - low_[2]);
  Point middle{};
  for (std::size_t d = 0; d < 3; ++d) middle[d] = (low_[d] + high_[d]) / 2;
  problems::TriangleMesh mesh;
  const auto add = [&](const Point& at, double radius) {
    const bool within = is_within(at);
    add_octahedron(mesh, within ? at : middle, within ? radius * diagonal : 0);
  };
  for (const std::uint32_t k : points_) add(point_of(scene, k), kPointSize);
  for (const std::uint32_t c : cameras_) add(scene.center(c), kCameraSize);
  return mesh;
}

std::vector<double> ShownScene::values() const {
  std::vector<double> values(kCorners * points_.size(), 0.0);
  values.resize(values.size() + kCorners * cameras_.size(), 1.0);
  return values;
}

}  // namespace topograd::command
