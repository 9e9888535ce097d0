// Arithmetic of poses, and pieces of graphs.
#include "pose_graph.hpp"

#include "disjoint_sets.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

Eigen::Quaterniond quaternion(const Pose& pose) {
  const auto& q = pose.rotation;
  return {q[0], q[1], q[2], q[3]};
}

Eigen::Vector3d vector_of(const Pose& pose) { return Eigen::Vector3d(pose.position.data()); }

Pose make_pose(const Eigen::Vector3d& t, const Eigen::Quaterniond& q) {
  return {{t.x(), t.y(), t.z()}, {q.w(), q.x(), q.y(), q.z()}};
}

}  // namespace

Pose Pose::planar(double x, double y, double angle) {
  return {{x, y, 0}, {std::cos(angle / 2), 0, 0, std::sin(angle / 2)}};
}

double Pose::angle() const {
  const double w = rotation[0], z = rotation[3];
  return std::atan2(2 * w * z, w * w - z * z);
}

Pose Pose::operator*(const Pose& other) const {
  const Eigen::Quaterniond q = quaternion(*this);
  return make_pose(vector_of(*this) + q * vector_of(other), (q * quaternion(other)).normalized());
}

Pose Pose::inverse() const {
  const Eigen::Quaterniond q = quaternion(*this).conjugate();
  return make_pose(-(q * vector_of(*this)), q);
}

bool PoseGraph::has_start() const {
  return std::ranges::all_of(given, [](bool is) { return is; });
}

namespace {

/// Numbers of the sets of the first `size` members, by their first member.
std::vector<std::uint32_t> numbered(DisjointSets& sets, std::size_t size) {
  std::vector<std::uint32_t> numbers(size);
  std::uint32_t count = 0;
  for (std::uint32_t k = 0; k < numbers.size(); ++k)
    numbers[k] = sets.least(k) == k ? count++ : numbers[sets.least(k)];
  return numbers;
}

}  // namespace

Pose PoseGraph::between(const Edge& edge) const {
  return place(edge, edge.from_sensor) * edge.measured * place(edge, edge.to_sensor).inverse();
}

std::vector<bool> PoseGraph::calibrations() const {
  std::vector<bool> out(size(), false);
  for (const Edge& edge : edges)
    if (edge.calibration != kNone) out[edge.calibration] = true;
  return out;
}

std::vector<std::uint32_t> PoseGraph::pieces() const {
  DisjointSets sets(size() + landmarks.size());  // poses come first
  for (const Edge& edge : edges) {
    sets.join(edge.from, edge.to);
    if (edge.calibration != kNone) sets.join(edge.from, edge.calibration);
  }
  for (const Sighting& seen : sightings)
    sets.join(seen.edge.from, static_cast<std::uint32_t>(size()) + seen.edge.to);
  return numbered(sets, size());
}

std::vector<std::uint32_t> PoseGraph::pieces_of_edges() const {
  DisjointSets sets(size());
  for (const Edge& edge : edges) sets.join(edge.from, edge.to);
  return numbered(sets, size());
}

std::vector<bool> PoseGraph::anchors() const {
  constexpr std::size_t kUnseen = ~std::size_t{0};
  const std::vector<std::uint32_t> piece = pieces();
  std::vector<std::size_t> of_landmark(landmarks.size(), kUnseen);  // the piece that sees it
  for (const Sighting& seen : sightings) of_landmark[seen.edge.to] = piece[seen.edge.from];
  const std::uint32_t count = piece.empty() ? 0 : 1 + *std::ranges::max_element(piece);
  const int enough = dimension;  // landmarks that tell where a piece is
  std::vector<int> held(count, 0);
  for (std::size_t k = 0; k < size(); ++k)
    if (fixed[k]) held[piece[k]] = enough;
  for (std::size_t k = 0; k < landmarks.size(); ++k)
    if (landmarks[k].fixed && of_landmark[k] != kUnseen) ++held[of_landmark[k]];
  for (const Prior& prior : priors) {
    if (prior.of == Prior::Of::switched) continue;
    const std::size_t of =
        prior.of == Prior::Of::landmark ? of_landmark[prior.edge.to] : piece[prior.edge.to];
    if (of != kUnseen) held[of] = enough;
  }
  std::vector<bool> out = fixed;
  std::vector<bool> seen(count, false);
  const std::vector<bool> calibration = calibrations();
  for (std::size_t k = 0; k < size(); ++k) {
    if (calibration[k]) continue;
    if (held[piece[k]] < enough && !seen[piece[k]]) out[k] = true;
    seen[piece[k]] = true;
  }
  return out;
}

}  // namespace topograd
