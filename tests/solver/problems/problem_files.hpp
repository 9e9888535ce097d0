// Reading of files for solver tests: meshes of triangles.
#pragma once

#include <filesystem>

#include "../../../tools/problems/mesh.hpp"

namespace topograd::test {

/// Reads vertices and triangles of an OBJ file whose faces are plain indices.
problems::TriangleMesh read_obj(const std::filesystem::path& path);

}  // namespace topograd::test
