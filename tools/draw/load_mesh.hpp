// Meshes from files.
#pragma once

#include <filesystem>

#include "scene.hpp"

namespace topograd::draw {

/// Reads a mesh in any format that OpenMesh knows.
///
/// Throws std::runtime_error with the path if there is no readable mesh with a triangle in the
/// file.
Mesh load_mesh(const std::filesystem::path& path);

}  // namespace topograd::draw
