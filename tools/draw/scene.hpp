// Meshes placed side by side on a sheet: orthographic view, shading.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::draw {

using Vec3 = std::array<double, 3>;

/// A triangle mesh as it is drawn.
struct Mesh {
  std::vector<Vec3> positions;
  std::vector<Vec3> normals;   ///< unit vectors, one a vertex
  std::vector<double> values;  ///< one a vertex, for its colour; empty = how far it moved
  std::vector<double> tint;    ///< one a vertex, 0 to 1; lay_out() fills it
  std::vector<std::array<int, 3>> triangles;
};

/// A mesh with its normals.
///
///   positions  x, y, z of each vertex
///   triangles  indices of vertices
///   values     one a vertex, or none
Mesh make_mesh(std::span<const double> positions,
               std::span<const std::array<std::uint32_t, 3>> triangles,
               std::vector<double> values = {});

/// A corner on the sheet: x to the right and y down in pixels, depth growing away from the viewer.
struct Corner {
  double x, y, depth;
  Vec3 color;  ///< linear light, 0 to 1
};

/// A part of the sheet: its triangles that face the viewer, far ones first, and its caption.
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

/// Lays the meshes out on one sheet, at one scale, seen from the same side. Where the first one has
/// values, meshes are tinted by theirs, as shares of the first one's largest; otherwise those with
/// the first one's vertex count by how far each vertex moved from the first.
///
///   size  times 640 x 680 pixels a mesh; > 0
Sheet lay_out(std::vector<Mesh> meshes, const std::vector<std::string>& captions, double size = 1);

/// The same, a sheet a mesh: frames of a film.
std::vector<Sheet> lay_out_frames(std::vector<Mesh> meshes,
                                  const std::vector<std::string>& captions, double size = 1);

/// Brightness on a screen for a linear light: the sRGB transfer function, 0 to 255.
std::array<int, 3> to_srgb(const Vec3& linear);

}  // namespace topograd::draw
