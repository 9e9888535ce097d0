// Two meshes placed side by side on a sheet: loading, orthographic view, shading.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace topograd::draw {

using Vec3 = std::array<double, 3>;

/// A triangle mesh with one unit normal and one displacement per vertex.
struct Mesh {
  std::vector<Vec3> positions;
  std::vector<Vec3> normals;
  std::vector<double> displacement;  ///< share of the largest one on the sheet, 0 to 1
  std::vector<std::array<int, 3>> triangles;
};

/// Reads a mesh in any format that OpenMesh knows.
///
/// Throws std::runtime_error with the path if there is no readable mesh with a triangle in the
/// file.
Mesh load_mesh(const std::filesystem::path& path);

/// A corner on the sheet: x to the right and y down in pixels, depth growing away from the viewer.
struct Corner {
  double x, y, depth;
  Vec3 color;  ///< linear light, 0 to 1
};

/// One half of the sheet: its triangles that face the viewer, far ones first, and its caption.
struct Panel {
  std::vector<std::array<Corner, 3>> triangles;
  std::string caption;
  double center;    ///< x of the panel's middle, pixels
  double baseline;  ///< y of the caption's baseline, pixels
};

struct Sheet {
  int width, height;  ///< pixels
  int text_size;      ///< height of an em, pixels
  std::vector<Panel> panels;
};

/// Lays the meshes out on one sheet, at one scale, seen from the same side. Meshes with the first
/// one's vertex count are tinted by how far each vertex moved from the first.
Sheet lay_out(std::vector<Mesh> meshes, const std::vector<std::string>& captions);

/// Brightness on a screen for a linear light: the sRGB transfer function, 0 to 255.
std::array<int, 3> to_srgb(const Vec3& linear);

}  // namespace topograd::draw
