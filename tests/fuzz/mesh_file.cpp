// OBJ files: every triangle names existing vertices.
#include "target.hpp"

#include "../../tools/command/input/mesh_file.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::fuzz {

void mesh_file(std::string_view text) {
  problems::TriangleMesh mesh;
  const auto read = [&] { mesh = command::parse_mesh(std::string(text), "mesh.obj"); };
  if (!reads(read, {ErrorCode::Parse})) return;
  require(!mesh.triangles.empty(), "a mesh without triangles");
  require(mesh.positions.size() == 3 * mesh.vertex_count(), "half of a vertex");
  for (const auto& triangle : mesh.triangles)
    require(std::ranges::all_of(triangle, [&](auto v) { return v < mesh.vertex_count(); }),
            "a vertex that is not there");
  require(std::ranges::all_of(mesh.positions, [](double x) { return std::isfinite(x); }),
          "a coordinate that is not finite");
}

}  // namespace topograd::fuzz
