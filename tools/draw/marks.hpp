// Points and lines as small solids, for drawing by triangles.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scene.hpp"

namespace topograd::draw {

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
