// Files that solver tests read: meshes of triangles.
#pragma once

#include <filesystem>

#include "../../../tools/problems/mesh.hpp"

namespace topograd::test {

/// Vertices and triangles of an OBJ file whose faces are plain indices.
problems::TriangleMesh read_obj(const std::filesystem::path& path);

}  // namespace topograd::test
