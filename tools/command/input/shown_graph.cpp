// Pose graphs as meshes for pictures.
#include "shown_graph.hpp"

#include "../../draw/scene.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd::command {
namespace {

using draw::Vec3;

constexpr double kThickness = 0.0022;     // of a bar, as a share of the graph's diagonal
constexpr std::size_t kCornersOfBar = 6;  // of a bar: three at each end

Vec3 place(const Pose& pose, int dimension) {
  const auto& [x, y, z] = pose.position;
  return dimension == 2 ? draw::on_sheet(x, y) : Vec3{x, z, -y};
}

double diagonal(const PoseGraph& graph) {
  double squares = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto at = [d](const Pose& pose) { return pose.position[d]; };
    const auto [low, high] = std::ranges::minmax(graph.poses, {}, at);
    squares += (at(high) - at(low)) * (at(high) - at(low));
  }
  return std::sqrt(squares);
}

Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Vec3 with_length(const Vec3& a, double length) {
  const double now = std::hypot(a[0], a[1], a[2]);
  if (now == 0) return {length, 0, 0};
  return {a[0] * length / now, a[1] * length / now, a[2] * length / now};
}

/// A prism from a to b with three sides.
void add_bar(problems::TriangleMesh& mesh, const Vec3& a, const Vec3& b, double radius) {
  const Vec3 along = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
  const std::size_t least = static_cast<std::size_t>(
      std::ranges::min_element(along, {}, [](double x) { return std::abs(x); }) - along.begin());
  Vec3 axis{};
  axis[least] = 1;
  const Vec3 across = with_length(cross(along, axis), radius);
  const Vec3 other = with_length(cross(along, across), radius);
  const auto first = static_cast<std::uint32_t>(mesh.vertex_count());
  for (const Vec3& end : {a, b}) {
    for (const auto& [u, v] : {std::pair{1.0, 0.0}, {-0.5, 0.866}, {-0.5, -0.866}})
      for (std::size_t d = 0; d < 3; ++d)
        mesh.positions.push_back(end[d] + u * across[d] + v * other[d]);
  }
  for (std::uint32_t k = 0; k < 3; ++k) {
    const std::uint32_t l = (k + 1) % 3;
    mesh.triangles.push_back({first + k, first + l, first + 3 + k});
    mesh.triangles.push_back({first + l, first + 3 + l, first + 3 + k});
  }
}

}  // namespace

ShownGraph::ShownGraph(const PoseGraph& graph) {
  const std::size_t all = graph.edges.size() + graph.sightings.size();
  const std::size_t step = 1 + (all == 0 ? 0 : (all - 1) / kMostShown);
  for (std::size_t k = 0; k < all; k += step) edges_.push_back(static_cast<std::uint32_t>(k));
}

problems::TriangleMesh ShownGraph::mesh(const PoseGraph& graph) const {
  const double radius = kThickness * diagonal(graph);
  problems::TriangleMesh mesh;
  for (const std::uint32_t k : edges_) {
    const bool sighting = k >= graph.edges.size();
    const PoseGraph::Edge& edge =
        sighting ? graph.sightings[k - graph.edges.size()].edge : graph.edges[k];
    const Pose to = sighting ? Pose{graph.landmarks[edge.to].position} : graph.poses[edge.to];
    add_bar(mesh, place(graph.poses[edge.from], graph.dimension), place(to, graph.dimension),
            radius);
  }
  return mesh;
}

std::vector<double> ShownGraph::values(std::span<const double> edges) const {
  std::vector<double> values;
  for (const std::uint32_t k : edges_) values.insert(values.end(), kCornersOfBar, edges[k]);
  return values;
}

}  // namespace topograd::command
