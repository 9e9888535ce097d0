// Reads meshes from files.
#pragma once

#include <filesystem>

#include "scene.hpp"

namespace topograd::draw {

/// Reads a mesh in any format that OpenMesh supports.
///
/// Throws std::runtime_error with the path unless the file has a readable mesh with a triangle.
Mesh load_mesh(const std::filesystem::path& path);

}  // namespace topograd::draw
