// Arranges meshes side by side on a sheet, with points and lines as small solids.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::draw {

using Vec3 = std::array<double, 3>;

/// A triangle mesh for drawing.
struct Mesh {
  std::vector<Vec3> positions;
  std::vector<Vec3> normals;   ///< unit vectors, one per vertex
  std::vector<double> values;  ///< one per vertex, for its colour; empty: its displacement
  std::vector<double> tint;    ///< one per vertex, 0 to 1; set by lay_out()
  std::vector<std::array<int, 3>> triangles;
};

/// A mesh with its normals.
///
///   positions  x, y, z of each vertex
///   triangles  indices of vertices
///   values     one per vertex, or empty
Mesh make_mesh(std::span<const double> positions,
               std::span<const std::array<std::uint32_t, 3>> triangles,
               std::vector<double> values = {});

/// A corner on the sheet: x to the right and y down in pixels, depth growing away from the viewer.
struct Corner {
  double x, y, depth;
  Vec3 color;  ///< linear light, 0 to 1
};

/// A part of the sheet: its triangles that face the viewer, from far to near, and its caption.
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

/// Arranges the meshes on one sheet, with the same scale and view. If the first mesh has values,
/// meshes are coloured by their values, relative to the first mesh's largest; otherwise meshes with
/// the first one's vertex count are coloured by the displacement of each vertex from the first
/// mesh.
///
///   size  multiple of 640 x 680 pixels per mesh; > 0
Sheet lay_out(std::vector<Mesh> meshes, const std::vector<std::string>& captions, double size = 1);

/// The same with one sheet per mesh: frames of a film.
std::vector<Sheet> lay_out_frames(std::vector<Mesh> meshes,
                                  const std::vector<std::string>& captions, double size = 1);

/// The point that is drawn `right` and `up` from the origin, without foreshortening: for figures in
/// the plane.
Vec3 on_sheet(double right, double up);

/// Brightness on a screen for a linear light: the sRGB transfer function, 0 to 255.
std::array<int, 3> to_srgb(const Vec3& linear);

/// A tetrahedron around each point and a prism with three sides along each line. Vertices have the
/// order of the points and then of the lines, so that two of these meshes can be compared by
/// vertex.
///
///   positions  x, y, z of each point
///   lines      pairs of indices of points
///   radius     of the marks, in the unit of the positions; > 0. Lines are half as thick.
Mesh make_marks(std::span<const double> positions,
                std::span<const std::array<std::uint32_t, 2>> lines, double radius);

}  // namespace topograd::draw
