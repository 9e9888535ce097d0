// The published test problems, traced and evaluated: initial costs and numbers of topologies.
#include <gtest/gtest.h>
#include "../../frontend/geometry.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "../support/paths.hpp"
#include "reference.hpp"

namespace topograd::test {
namespace {

void add_springs(Problem& problem, Springs& springs) {
  const Parameters x = problem.add_parameters(springs.positions, 3);
  for (const Springs::Edge& e : springs.edges)
    problem.add_residual(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest, {.label = "edge"});
  for (const Springs::Anchor& a : springs.anchors)
    problem.add_residual(x.vec3(a.vertex) - a.target, {.label = "anchor"});
}

TEST(Springs, InitialCostIsThePublishedOne) {
  const struct {
    int width;
    double cost;  // Ceres, f64
  } rows[] = {{10, 2.6161453817}, {30, 27.0082445932}, {100, 291.938669864}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.width);
    Springs springs(row.width);
    Problem problem;
    add_springs(problem, springs);
    EXPECT_EQ(problem.topology_count(), 2u);
    EXPECT_EQ(problem.residual_count(), springs.edges.size() + 12);
    EXPECT_EQ(problem.residual_block_count(), springs.edges.size() + 4);
    EXPECT_NEAR(cost(problem) / row.cost, 1.0, 1e-9);
  }
}

/// Vertices and triangles of an OBJ file without anything else in it.
struct Mesh {
  std::vector<double> positions;
  std::vector<std::array<std::uint32_t, 3>> triangles;
};

Mesh read_obj(const std::filesystem::path& path) {
  std::istringstream text(read_file(path));
  Mesh mesh;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "v") {
      for (double value; words >> value;) mesh.positions.push_back(value);
    } else if (kind == "f") {
      std::array<std::uint32_t, 3> triangle{};
      for (std::uint32_t& corner : triangle) {
        std::string word;
        words >> word;
        corner = static_cast<std::uint32_t>(std::stoul(word)) - 1;
      }
      mesh.triangles.push_back(triangle);
    }
  }
  return mesh;
}

TEST(Arap, InitialCostOnSpotIsThePublishedOne) {
  Mesh mesh = read_obj(source_dir() / "samples/data/spot.obj");
  const std::vector<double> rest = mesh.positions;
  const std::size_t vertices = rest.size() / 3;
  ASSERT_EQ(vertices, 2930u);
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const auto& t : mesh.triangles)
    for (int k = 0; k < 3; ++k) {
      edges.insert({t[k], t[(k + 1) % 3]});
      edges.insert({t[(k + 1) % 3], t[k]});
    }
  const auto at = [&](std::uint32_t i) {
    return std::array<double, 3>{rest[3 * i], rest[3 * i + 1], rest[3 * i + 2]};
  };

  Problem problem;
  std::vector<double> rotations(rest.size(), 0.0);
  const Parameters p = problem.add_parameters(mesh.positions, 3);
  const Parameters a = problem.add_parameters(rotations, 3);
  for (const auto& [i, j] : edges) {
    const std::array<double, 3> edge = {at(i)[0] - at(j)[0], at(i)[1] - at(j)[1],
                                        at(i)[2] - at(j)[2]};
    problem.add_residual(p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), lift(edge)));
  }
  double low = INFINITY, high = -INFINITY;
  for (std::uint32_t i = 0; i < vertices; ++i) {
    low = std::min(low, at(i)[1]);
    high = std::max(high, at(i)[1]);
  }
  const double h = high - low;
  for (std::uint32_t i = 0; i < vertices; ++i) {
    std::array<double, 3> target = at(i);
    if (target[1] > low + 0.05 * h && target[1] < high - 0.05 * h) continue;
    if (target[1] >= high - 0.05 * h) target[2] += h / 2;
    problem.add_residual(10 * (p.vec3(i) - target));
  }
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_NEAR(cost(problem) / 3929.13617924, 1.0, 1e-9);
}

}  // namespace
}  // namespace topograd::test
