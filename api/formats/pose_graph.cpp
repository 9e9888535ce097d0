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

std::vector<std::uint32_t> PoseGraph::pieces() const {
  DisjointSets sets(size());
  for (const Edge& edge : edges) sets.join(edge.from, edge.to);
  std::vector<std::uint32_t> numbers(size());
  std::uint32_t count = 0;
  for (std::uint32_t k = 0; k < numbers.size(); ++k)
    numbers[k] = sets.least(k) == k ? count++ : numbers[sets.least(k)];
  return numbers;
}

std::vector<bool> PoseGraph::anchors() const {
  const std::vector<std::uint32_t> piece = pieces();
  std::vector<bool> has_fixed, seen;
  for (std::size_t k = 0; k < size(); ++k) {
    if (piece[k] == has_fixed.size()) has_fixed.push_back(false);
    if (fixed[k]) has_fixed[piece[k]] = true;
  }
  std::vector<bool> out = fixed;
  seen.resize(has_fixed.size());
  for (std::size_t k = 0; k < size(); ++k) {
    if (!has_fixed[piece[k]] && !seen[piece[k]]) out[k] = true;
    seen[piece[k]] = true;
  }
  return out;
}

}  // namespace topograd
