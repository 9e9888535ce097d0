// Checks of the vertices and faces of a file, and where its triangles are not a surface.
#include "builder.hpp"

#include <algorithm>
#include <limits>

#include "../../../ir/error.hpp"
#include "../disjoint_sets.hpp"
#include "../word_reader.hpp"

namespace topograd {
namespace {

/// A side of a triangle.
struct Side {
  std::uint64_t edge = 0;  ///< both vertices, the lower one first
  std::uint32_t triangle = 0;
  bool operator<(const Side& other) const {
    return edge != other.edge ? edge < other.edge : triangle < other.triangle;
  }
  std::uint32_t low() const { return static_cast<std::uint32_t>(edge >> 32); }
  std::uint32_t high() const { return static_cast<std::uint32_t>(edge); }
};

std::vector<Side> sorted_sides(const TriangleMesh& mesh) {
  std::vector<Side> sides;
  sides.reserve(3 * mesh.triangles.size());
  for (std::uint32_t t = 0; t < mesh.triangles.size(); ++t) {
    for (std::size_t k = 0; k < 3; ++k) {
      const auto [low, high] = std::minmax(mesh.triangles[t][k], mesh.triangles[t][(k + 1) % 3]);
      sides.push_back({std::uint64_t{low} << 32 | high, t});
    }
  }
  std::ranges::sort(sides, std::less());
  return sides;
}

/// Appends the vertices with more than one fan of triangles; `corners` joins those of one fan.
void append_vertices(const TriangleMesh& mesh, DisjointSets& corners, std::size_t count,
                     std::vector<NotManifold>& found) {
  // The first corner of each fan, by vertex.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> fans;
  for (std::uint32_t c = 0; c < count; ++c)
    if (corners.least(c) == c) fans.emplace_back(mesh.triangles[c / 3][c % 3], c / 3);
  std::ranges::sort(fans);
  for (std::size_t first = 0, last = 0; first < fans.size(); first = last) {
    for (last = first; last < fans.size() && fans[last].first == fans[first].first;) ++last;
    if (last - first == 1) continue;
    NotManifold& vertex = found.emplace_back(NotManifold{{fans[first].first}, {}});
    for (std::size_t k = first; k < last; ++k) vertex.triangles.push_back(fans[k].second);
  }
}

/// Corners are counted in 32 bits.
constexpr std::size_t kMostTriangles = std::numeric_limits<std::uint32_t>::max() / 3;
constexpr std::size_t kMostLocations = 10;  ///< that a message names

}  // namespace

std::vector<NotManifold> find_not_manifold(const TriangleMesh& mesh) {
  const std::vector<Side> sides = sorted_sides(mesh);
  DisjointSets corners(sides.size());
  const auto corner = [&](std::uint32_t triangle, std::uint32_t vertex) {
    const auto& t = mesh.triangles[triangle];
    return 3 * triangle + (t[0] == vertex ? 0u : t[1] == vertex ? 1u : 2u);
  };
  std::vector<NotManifold> found;
  for (std::size_t first = 0, last = 0; first < sides.size(); first = last) {
    const Side& side = sides[first];
    for (last = first; last < sides.size() && sides[last].edge == side.edge; ++last) {
      for (const std::uint32_t v : {side.low(), side.high()})
        corners.join(corner(side.triangle, v), corner(sides[last].triangle, v));
    }
    if (last - first <= 2) continue;
    NotManifold& edge = found.emplace_back(NotManifold{{side.low(), side.high()}, {}});
    for (std::size_t k = first; k < last; ++k) edge.triangles.push_back(sides[k].triangle);
  }
  append_vertices(mesh, corners, sides.size(), found);
  return found;
}

void MeshBuilder::add_triangle(const std::array<std::uint32_t, 3>& corners, std::size_t location) {
  const auto& [a, b, c] = corners;
  const bool degenerate = a == b || b == c || c == a;
  (degenerate ? dropped_ : mesh_.triangles).push_back(corners);
  (degenerate ? dropped_locations_ : locations_).push_back(location);
}

void MeshBuilder::add_face(std::span<const std::uint32_t> corners, std::size_t location) {
  for (std::size_t k = 2; k < corners.size(); ++k)
    add_triangle({corners[0], corners[k - 1], corners[k]}, location);
}

TriangleMesh MeshBuilder::finish(std::size_t end, const MeshOptions& options, MeshNotes* notes) {
  check_corners();
  if (options.strict && !dropped_.empty()) fail(dropped_locations_[0], degenerate_text());
  if (mesh_.triangles.empty())
    throw Error(ErrorCode::Parse, (binary_ ? name_ : location_text(end)) +
                                      ": expected faces, got none" +
                                      (dropped_.empty() ? "" : " but some with one vertex twice"));
  if (mesh_.triangles.size() > kMostTriangles)
    fail(locations_.back(), "expected at most " + std::to_string(kMostTriangles) + " triangles");
  if (options.strict || notes != nullptr) check_surface(options, notes);
  if (notes != nullptr && !dropped_.empty()) {
    notes->degenerate = dropped_.size();
    notes->degenerate_sentence = location_text(dropped_locations_[0]) + ": " + degenerate_text();
  }
  return std::move(mesh_);
}

std::string MeshBuilder::degenerate_text() const {
  const auto& [a, b, c] = dropped_[0];
  return "expected a face of different vertices, got vertex " +
         vertex_name(a == b || a == c ? a : b) + " twice";
}

void MeshBuilder::check_corners() const {
  for (std::size_t t = 0; t < mesh_.triangles.size(); ++t) {
    for (const std::uint32_t v : mesh_.triangles[t])
      if (v >= vertex_count()) fail_number(locations_[t], vertex_name(v));
  }
  for (std::size_t t = 0; t < dropped_.size(); ++t) {
    for (const std::uint32_t v : dropped_[t])
      if (v >= vertex_count()) fail_number(dropped_locations_[t], vertex_name(v));
  }
}

void MeshBuilder::check_surface(const MeshOptions& options, MeshNotes* notes) const {
  for (const NotManifold& found : find_not_manifold(mesh_)) {
    const bool edge = found.vertices.size() == 2;
    const std::string count = std::to_string(found.triangles.size());
    const std::string what =
        (edge ? count + " triangles meet in the edge from vertex " +
                    vertex_name(found.vertices[0]) + " to vertex " + vertex_name(found.vertices[1])
              : "the triangles at vertex " + vertex_name(found.vertices[0]) + " are " + count +
                    " fans") +
        triangles_text(found.triangles);
    // The first triangle that should not be there.
    const std::size_t location = locations_[found.triangles[edge ? 2 : 1]];
    if (options.strict) fail(location, "expected a manifold mesh, but " + what);
    ++(edge ? notes->edges : notes->vertices);
    if (notes->sentences.size() < MeshNotes::kMostSentences)
      notes->sentences.push_back(location_text(location) + ": not manifold: " + what);
  }
}

std::string MeshBuilder::triangles_text(std::span<const std::uint32_t> triangles) const {
  std::string text = binary_ ? " (faces" : " (lines";
  for (std::size_t k = 0; k < std::min(triangles.size(), kMostLocations); ++k)
    text += (k == 0 ? " " : ", ") + std::to_string(locations_[triangles[k]]);
  return text + (triangles.size() > kMostLocations ? ", ...)" : ")");
}

std::string MeshBuilder::location_text(std::size_t location) const {
  return name_ + (binary_ ? ": face " : ":") + std::to_string(location);
}

std::string MeshBuilder::vertex_name(std::uint32_t vertex) const {
  if (names_ != VertexNames::by_position)
    return std::to_string(vertex + (names_ == VertexNames::from_one ? std::uint64_t{1} : 0));
  std::string text;
  for (std::size_t d = 0; d < 3; ++d) {
    text += d == 0 ? '(' : ' ';
    append_number(text, mesh_.positions[3 * std::size_t{vertex} + d]);
  }
  return text + ')';
}

void MeshBuilder::fail(std::size_t location, const std::string& what) const {
  throw Error(ErrorCode::Parse, location_text(location) + ": " + what);
}

void MeshBuilder::fail_number(std::size_t location, const std::string& number) const {
  if (vertex_count() == 0) fail(location, "expected vertices, got none, and a face of " + number);
  const std::size_t first = names_ == VertexNames::from_one ? 1 : 0;
  fail(location, "expected a vertex number from " + std::to_string(first) + " to " +
                     std::to_string(vertex_count() - 1 + first) + ", got " + number);
}

}  // namespace topograd
