// Files that solver tests read: meshes of triangles, and regression sets of NIST.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "problems/mesh.hpp"

namespace topograd::test {

/// Vertices and triangles of an OBJ file whose faces are plain indices.
problems::TriangleMesh read_obj(const std::filesystem::path& path);

/// A set of NIST's StRD for nonlinear regression.
struct NistSet {
  std::array<std::vector<double>, 2> starts;
  std::vector<double> certified;
  double certified_cost = 0;  ///< residual sum of squares, twice our cost
  std::vector<double> y, x;   ///< data, one predictor
};
NistSet read_nist(const std::filesystem::path& path);

}  // namespace topograd::test
