// Pose graphs with known poses.
#pragma once

#include "../../api/formats/pose_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::problems {

/// A robot drives to and fro over a grid, and measures the poses beside it.
///
///   noise  largest error of a coordinate and half an angle
inline PoseGraph made_pose_graph(int dimension, std::uint32_t width, double noise) {
  PoseGraph graph;
  graph.dimension = dimension;
  const auto wave = [](std::size_t k) { return std::sin(12.9898 * static_cast<double>(k)); };
  std::vector<Pose> truth;
  const auto at = [&](std::uint32_t x, std::uint32_t y) {
    return y * width + (y % 2 == 0 ? x : width - 1 - x);
  };
  truth.resize(std::size_t{width} * width);
  for (std::uint32_t y = 0; y < width; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::uint32_t k = at(x, y);
      Pose& pose = truth[k];
      pose = Pose::planar(x, y, y % 2 == 0 ? 0.1 * wave(k) : 3.1 + 0.1 * wave(k));
      if (dimension == 2) continue;
      const double tilt = 0.4 * wave(3 * k + 1);
      pose.position[2] = wave(x + 2 * y);
      pose = pose * Pose{{}, {std::cos(tilt), std::sin(tilt), 0, 0}};
    }
  }
  truth = [&] {  // the first pose is the frame
    std::vector<Pose> moved;
    for (const Pose& pose : truth) moved.push_back(truth[0].inverse() * pose);
    return moved;
  }();
  for (std::size_t k = 0; k < truth.size(); ++k) graph.ids.push_back(static_cast<std::int64_t>(k));
  graph.poses = truth;
  graph.given.assign(truth.size(), true);
  graph.fixed.assign(truth.size(), false);
  const auto add = [&](std::uint32_t from, std::uint32_t to) {
    PoseGraph::Edge edge;
    edge.from = from;
    edge.to = to;
    edge.measured = truth[from].inverse() * truth[to];
    const std::size_t k = 7 * graph.edges.size();
    edge.measured.position[0] += noise * wave(k);
    edge.measured.position[1] += noise * wave(k + 1);
    Pose turn = Pose::planar(0, 0, 2 * noise * wave(k + 2));
    if (dimension == 3) {
      edge.measured.position[2] += noise * wave(k + 3);
      turn = turn * Pose{{}, {std::sqrt(1 - noise * noise), noise * wave(k + 4), 0, 0}};
    }
    edge.measured = edge.measured * turn;
    const std::size_t degrees = graph.degrees();
    for (std::size_t i = 0; i < degrees; ++i) {
      for (std::size_t j = 0; j < degrees; ++j)
        edge.information[6 * i + j] = i == j ? 900.0 + 100.0 * static_cast<double>(i) : 50;
    }
    graph.edges.push_back(edge);
  };
  for (std::uint32_t k = 0; k + 1 < truth.size(); ++k) add(k, k + 1);
  for (std::uint32_t y = 0; y + 1 < width; ++y)
    for (std::uint32_t x = 0; x + 1 < width; ++x) add(at(x, y), at(x, y + 1));
  return graph;
}

/// Largest distance between poses of the same number.
inline double farthest(const PoseGraph& a, const PoseGraph& b) {
  double most = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto &p = a.poses[k].position, &q = b.poses[k].position;
    most = std::max(most, std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]));
  }
  return most;
}

}  // namespace topograd::problems
