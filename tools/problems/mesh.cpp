// Triangle meshes: spheres, subdivision, edges and stars.
#include "problems/mesh.hpp"

#include <topograd/ir/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <random>
#include <string>

#include "problems/shuffle.hpp"

namespace topograd::problems {
namespace {

using HalfEdge = std::pair<std::uint32_t, std::uint32_t>;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::InvalidArgument, "mesh: " + what);
}

void check_corners(const TriangleMesh& mesh) {
  for (const auto& t : mesh.triangles) {
    for (const std::uint32_t v : t) {
      if (v < mesh.vertex_count()) continue;
      refuse("a triangle names vertex " + std::to_string(v) + " of " +
             std::to_string(mesh.vertex_count()));
    }
  }
}

/// The corner opposite to each directed edge of a triangle.
std::map<HalfEdge, std::uint32_t> opposite_corners(const TriangleMesh& mesh) {
  check_corners(mesh);
  std::map<HalfEdge, std::uint32_t> out;
  for (const auto& t : mesh.triangles) {
    for (std::size_t k = 0; k < 3; ++k) {
      const HalfEdge edge = {t[k], t[(k + 1) % 3]};
      if (out.emplace(edge, t[(k + 2) % 3]).second) continue;
      refuse("more than two triangles, or two that are not oriented alike, meet in the edge " +
             std::to_string(edge.first) + " " + std::to_string(edge.second));
    }
  }
  return out;
}

void to_unit_sphere(std::vector<double>& positions) {
  for (std::size_t v = 0; v + 2 < positions.size(); v += 3) {
    const double length = std::hypot(positions[v], positions[v + 1], positions[v + 2]);
    for (std::size_t k = 0; k < 3; ++k) positions[v + k] /= length;
  }
}

TriangleMesh icosahedron() {
  constexpr double g = std::numbers::phi;
  TriangleMesh mesh;
  mesh.positions = {-1, g,  0,  1, g, 0,  -1, -g, 0,  1, -g, 0, 0,  -1, g,  0,  1, g,
                    0,  -1, -g, 0, 1, -g, g,  0,  -1, g, 0,  1, -g, 0,  -1, -g, 0, 1};
  mesh.triangles = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                    {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                    {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                    {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
  to_unit_sphere(mesh.positions);
  return mesh;
}

}  // namespace

TriangleMesh icosphere(std::uint32_t subdivisions) {
  if (subdivisions > 8) {
    throw Error(ErrorCode::InvalidArgument,
                "icosphere: expected at most 8 subdivisions, got " + std::to_string(subdivisions));
  }
  TriangleMesh mesh = icosahedron();
  for (std::uint32_t k = 0; k < subdivisions; ++k) {
    mesh = subdivide(mesh);
    to_unit_sphere(mesh.positions);
  }
  return mesh;
}

TriangleMesh subdivide(const TriangleMesh& mesh) {
  check_corners(mesh);
  TriangleMesh out;
  out.positions = mesh.positions;
  std::map<HalfEdge, std::uint32_t> midpoints;
  const auto midpoint = [&](std::uint32_t a, std::uint32_t b) {
    const auto next = static_cast<std::uint32_t>(out.vertex_count());
    const auto [at, is_new] = midpoints.try_emplace(std::minmax(a, b), next);
    for (std::size_t k = 0; is_new && k < 3; ++k)
      out.positions.push_back((mesh.positions[3 * a + k] + mesh.positions[3 * b + k]) / 2);
    return at->second;
  };
  for (const auto& [a, b, c] : mesh.triangles) {
    const std::uint32_t ab = midpoint(a, b), bc = midpoint(b, c), ca = midpoint(c, a);
    out.triangles.insert(out.triangles.end(),
                         {{a, ab, ca}, {b, bc, ab}, {c, ca, bc}, {ab, bc, ca}});
  }
  return out;
}

void perturb(std::vector<double>& positions, double amplitude, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  // Distributions differ between libraries; the top 53 bits do not.
  for (double& v : positions) v += amplitude * (static_cast<double>(random() >> 11) * 0x1p-52 - 1);
}

TriangleMesh shuffle(const TriangleMesh& mesh, std::uint64_t seed) {
  check_corners(mesh);
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> place(mesh.vertex_count());
  std::iota(place.begin(), place.end(), 0u);
  shuffle_in_place(place, random);
  TriangleMesh out{std::vector<double>(mesh.positions.size()), mesh.triangles};
  for (std::size_t v = 0; v < place.size(); ++v) {
    for (std::size_t k = 0; k < 3; ++k)
      out.positions[3 * std::size_t{place[v]} + k] = mesh.positions[3 * v + k];
  }
  shuffle_in_place(out.triangles, random);
  for (auto& triangle : out.triangles) {
    for (std::uint32_t& v : triangle) v = place[v];
  }
  return out;
}

std::vector<InteriorEdge> interior_edges(const TriangleMesh& mesh) {
  const auto opposite = opposite_corners(mesh);
  std::vector<InteriorEdge> out;
  for (const auto& [edge, left] : opposite) {
    const auto& [from, to] = edge;
    const auto back = opposite.find({to, from});
    if (from < to && back != opposite.end()) out.push_back({from, to, left, back->second});
  }
  return out;
}

std::vector<VertexStar> vertex_stars(const TriangleMesh& mesh) {
  opposite_corners(mesh);  // refuses meshes that have no stars
  // The neighbour that follows each neighbour around a vertex.
  std::vector<std::map<std::uint32_t, std::uint32_t>> next(mesh.vertex_count());
  for (const auto& t : mesh.triangles) {
    for (std::size_t k = 0; k < 3; ++k) next[t[k]].emplace(t[(k + 1) % 3], t[(k + 2) % 3]);
  }
  std::vector<VertexStar> out;
  for (std::uint32_t v = 0; v < next.size(); ++v) {
    if (next[v].empty()) continue;
    VertexStar star{.vertex = v, .ring = {next[v].begin()->first}};
    for (const auto& [from, to] : next[v]) {
      const auto leads_to = [&](const auto& step) { return step.second == from; };
      if (std::any_of(next[v].begin(), next[v].end(), leads_to)) continue;
      star.closed = false;  // nothing comes before this neighbour
      star.ring = {from};
    }
    std::size_t steps = 0;
    for (auto at = next[v].find(star.ring[0]); at != next[v].end(); at = next[v].find(at->second)) {
      if (++steps == next[v].size() && star.closed) break;
      if (steps > next[v].size()) break;
      star.ring.push_back(at->second);
    }
    if (star.faces() != next[v].size())
      refuse("the triangles at vertex " + std::to_string(v) + " are more than one fan");
    out.push_back(std::move(star));
  }
  return out;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> directed_edges(const TriangleMesh& mesh) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  edges.reserve(6 * mesh.triangles.size());
  check_corners(mesh);
  for (const auto& t : mesh.triangles) {
    for (int k = 0; k < 3; ++k) {
      const std::uint32_t a = t[static_cast<std::size_t>(k)];
      const std::uint32_t b = t[static_cast<std::size_t>((k + 1) % 3)];
      edges.emplace_back(a, b);
      edges.emplace_back(b, a);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace topograd::problems
