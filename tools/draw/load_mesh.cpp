// Reads meshes from files.
#include "load_mesh.hpp"

#include <OpenMesh/Core/IO/MeshIO.hh>
#include <OpenMesh/Core/Mesh/TriMesh_ArrayKernelT.hh>
#include <OpenMesh/Core/System/omstream.hh>
#include <stdexcept>

namespace topograd::draw {

Mesh load_mesh(const std::filesystem::path& path) {
  omerr().disable();  // only the exception below reports errors
  OpenMesh::TriMesh_ArrayKernelT<> loaded;
  if (!OpenMesh::IO::read_mesh(loaded, path.string()) || loaded.n_faces() == 0) {
    throw std::runtime_error("draw_mesh: no readable triangle mesh in " + path.string());
  }
  std::vector<double> positions;
  for (const auto vertex : loaded.vertices()) {
    const auto& p = loaded.point(vertex);
    positions.insert(positions.end(), {p[0], p[1], p[2]});
  }
  std::vector<std::array<std::uint32_t, 3>> triangles;
  for (const auto face : loaded.faces()) {
    auto corner = loaded.cfv_iter(face);
    std::array<std::uint32_t, 3> triangle{};
    for (std::uint32_t& v : triangle) v = static_cast<std::uint32_t>((corner++)->idx());
    triangles.push_back(triangle);
  }
  return make_mesh(positions, triangles);
}

}  // namespace topograd::draw
