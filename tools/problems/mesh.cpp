// Triangle meshes: spheres, subdivision, edges and stars; edge lengths as residuals.
#include "mesh.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "../../frontend/vec.hpp"
#include "../../ir/checking/random_program.hpp"
#include "../../ir/error.hpp"
#include "shuffle.hpp"

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

/// False if a corner is repeated.
bool has_area(const std::array<std::uint32_t, 3>& t) {
  return t[0] != t[1] && t[1] != t[2] && t[2] != t[0];
}

/// Rejects edges of more than two triangles, or of two triangles with different orientations.
void check_edges(const TriangleMesh& mesh) {
  std::set<HalfEdge> seen;
  for (const auto& t : mesh.triangles) {
    for (std::size_t k = 0; has_area(t) && k < 3; ++k) {
      const HalfEdge edge = {t[k], t[(k + 1) % 3]};
      if (seen.insert(edge).second) continue;
      refuse("more than two triangles, or two that are not oriented alike, meet in the edge " +
             std::to_string(edge.first) + " " + std::to_string(edge.second));
    }
  }
}

/// The fan of the triangles at a vertex; has fewer triangles than `sides` if they are not a fan.
VertexStar fan(std::uint32_t vertex, const std::vector<HalfEdge>& sides) {
  // The neighbour after each neighbour.
  const std::map<std::uint32_t, std::uint32_t> next(sides.begin(), sides.end());
  VertexStar star{.vertex = vertex, .ring = {next.begin()->first}};
  for (const auto& [from, to] : next) {
    const auto leads_to = [&](const auto& step) { return step.second == from; };
    if (std::any_of(next.begin(), next.end(), leads_to)) continue;
    star.closed = false;  // no triangle precedes this neighbour
    star.ring = {from};
  }
  std::size_t steps = 0;
  for (auto at = next.find(star.ring[0]); at != next.end(); at = next.find(at->second)) {
    if (++steps == next.size() && star.closed) break;
    if (steps > next.size()) break;
    star.ring.push_back(at->second);
  }
  return star;
}

VertexStar loose(std::uint32_t vertex, const std::vector<HalfEdge>& sides) {
  VertexStar star{.vertex = vertex, .ring = {}, .closed = true, .fan = false};
  std::map<std::uint32_t, int> triangles;  // by neighbour
  for (const auto& [a, b] : sides) {
    star.ring.insert(star.ring.end(), {a, b});
    ++triangles[a];
    ++triangles[b];
  }
  for (const auto& [neighbour, count] : triangles) star.closed = star.closed && count > 1;
  return star;
}

void to_unit_sphere(std::vector<double>& positions) {
  for (std::size_t v = 0; v + 2 < positions.size(); v += 3) {
    const double length = std::hypot(positions[v], positions[v + 1], positions[v + 2]);
    for (std::size_t k = 0; k < 3; ++k) positions[v + k] /= length;
  }
}

TriangleMesh icosahedron() {
  const double g = std::numbers::phi;
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
  ir::Random random(seed);
  for (double& v : positions) v += amplitude * random.between(-1, 1);
}

TriangleMesh shuffle(const TriangleMesh& mesh, std::uint64_t seed) {
  check_corners(mesh);
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> position(mesh.vertex_count());
  std::iota(position.begin(), position.end(), 0u);
  shuffle_in_place(position, random);
  TriangleMesh out{std::vector<double>(mesh.positions.size()), mesh.triangles};
  for (std::size_t v = 0; v < position.size(); ++v) {
    for (std::size_t k = 0; k < 3; ++k)
      out.positions[3 * std::size_t{position[v]} + k] = mesh.positions[3 * v + k];
  }
  shuffle_in_place(out.triangles, random);
  for (auto& triangle : out.triangles) {
    for (std::uint32_t& v : triangle) v = position[v];
  }
  return out;
}

std::vector<InteriorEdge> interior_edges(const TriangleMesh& mesh) {
  check_corners(mesh);
  struct Sides {
    std::vector<std::uint32_t> opposite;  // corners of the triangles at the edge
    bool first_is_left = true;
  };
  std::map<HalfEdge, Sides> edges;
  for (const auto& t : mesh.triangles) {
    for (std::size_t k = 0; has_area(t) && k < 3; ++k) {
      const std::uint32_t a = t[k], b = t[(k + 1) % 3];
      Sides& sides = edges[std::minmax(a, b)];
      if (sides.opposite.empty()) sides.first_is_left = a < b;
      sides.opposite.push_back(t[(k + 2) % 3]);
    }
  }
  std::vector<InteriorEdge> out;
  for (const auto& [edge, sides] : edges) {
    if (sides.opposite.size() != 2 || sides.opposite[0] == sides.opposite[1]) continue;
    const std::uint32_t left = sides.opposite[sides.first_is_left ? 0 : 1];
    const std::uint32_t right = sides.opposite[sides.first_is_left ? 1 : 0];
    out.push_back({edge.first, edge.second, left, right});
  }
  return out;
}

std::vector<VertexStar> vertex_stars(const TriangleMesh& mesh, Stars stars) {
  check_corners(mesh);
  if (stars == Stars::fans) check_edges(mesh);
  // The two other corners of each triangle around a vertex.
  std::vector<std::vector<HalfEdge>> sides(mesh.vertex_count());
  for (const auto& t : mesh.triangles) {
    for (std::size_t k = 0; has_area(t) && k < 3; ++k)
      sides[t[k]].emplace_back(t[(k + 1) % 3], t[(k + 2) % 3]);
  }
  std::vector<VertexStar> out;
  for (std::uint32_t v = 0; v < sides.size(); ++v) {
    if (sides[v].empty()) continue;
    VertexStar star = fan(v, sides[v]);
    if (star.faces() != sides[v].size()) {
      if (stars == Stars::fans)
        refuse("the triangles at vertex " + std::to_string(v) + " are more than one fan");
      star = loose(v, sides[v]);
    }
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
      if (a == b) continue;
      edges.emplace_back(a, b);
      edges.emplace_back(b, a);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

std::vector<EdgeLength> edge_lengths(const TriangleMesh& mesh) {
  std::vector<EdgeLength> out;
  const double* u = mesh.positions.data();
  for (const auto& [a, b] : directed_edges(mesh)) {
    if (a > b) continue;
    out.push_back({a, b,
                   std::hypot(u[3 * a] - u[3 * b], u[3 * a + 1] - u[3 * b + 1],
                              u[3 * a + 2] - u[3 * b + 2])});
  }
  return out;
}

void add_edge_lengths(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                      const Uniform* weight, Slice slice) {
  std::uint64_t number = 0;
  for (const EdgeLength& e : edge_lengths(mesh)) {
    if (!slice.has(number++)) continue;
    const Value stretch = norm(x.vec3(e.a) - x.vec3(e.b)) - e.length;
    problem.add_residual(weight == nullptr ? stretch : weight->value() * stretch,
                         {.label = "edge"});
  }
}

}  // namespace topograd::problems
