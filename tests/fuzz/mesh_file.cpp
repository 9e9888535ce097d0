// Mesh files: each input is read in every format. Triangles are of different vertices that exist,
// and the mesh reads back from what is written.
#include "target.hpp"

#include "../../api/formats/mesh/mesh.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::fuzz {
namespace {

using Position = std::array<double, 3>;

Position position(const TriangleMesh& mesh, std::uint32_t vertex) {
  const double* at = &mesh.positions[3 * std::size_t{vertex}];
  return {at[0], at[1], at[2]};
}

/// STL files cannot tell apart vertices at one place.
bool has_points(const TriangleMesh& mesh) {
  return std::ranges::any_of(mesh.triangles, [&](const auto& t) {
    const Position a = position(mesh, t[0]), b = position(mesh, t[1]), c = position(mesh, t[2]);
    return a == b || b == c || c == a;
  });
}

void check(const TriangleMesh& mesh) {
  require(!mesh.triangles.empty(), "a mesh without triangles");
  require(mesh.positions.size() == 3 * mesh.vertex_count(), "half of a vertex");
  for (const auto& t : mesh.triangles) {
    require(std::ranges::all_of(t, [&](auto v) { return v < mesh.vertex_count(); }),
            "a vertex that is not there");
    require(t[0] != t[1] && t[1] != t[2] && t[2] != t[0], "a vertex that is there twice");
  }
  require(std::ranges::all_of(mesh.positions, [](double x) { return std::isfinite(x); }),
          "a coordinate that is not finite");
}

void read_back(const TriangleMesh& mesh) {
  for (const MeshFormat format : {MeshFormat::obj, MeshFormat::off, MeshFormat::ply}) {
    const TriangleMesh again = parse_mesh(mesh_text(mesh, format), format, "again");
    require(again.positions == mesh.positions && again.triangles == mesh.triangles,
            "a mesh that does not read back");
  }
  if (has_points(mesh)) return;
  const TriangleMesh again = parse_mesh(mesh_text(mesh, MeshFormat::stl), MeshFormat::stl, "again");
  require(again.triangles.size() == mesh.triangles.size(), "other triangles");
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    for (std::size_t k = 0; k < 3; ++k)
      require(position(again, again.triangles[t][k]) == position(mesh, mesh.triangles[t][k]),
              "a triangle that does not read back");
}

}  // namespace

void mesh_file(std::string_view text) {
  for (const MeshFormat format :
       {MeshFormat::obj, MeshFormat::off, MeshFormat::ply, MeshFormat::stl}) {
    TriangleMesh mesh;
    MeshNotes notes;
    const auto read = [&] { mesh = parse_mesh(text, format, "mesh", {}, &notes); };
    if (!reads(read, {ErrorCode::Parse})) continue;
    check(mesh);
    read_back(mesh);
    const bool manifold = notes.edges + notes.vertices + notes.degenerate == 0;
    require(manifold == reads([&] { parse_mesh(text, format, "mesh", {.strict = true}); },
                              {ErrorCode::Parse}),
            "a mesh that is strictly one thing and otherwise another");
  }
}

}  // namespace topograd::fuzz
