// multi(mesh): developability, edge lengths, smoothing and fit in one problem, with weights.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"

#include <memory>
#include <vector>

namespace topograd::problems {

/// The problem, its memory, and its weights, which may change between solves.
struct Multi {
  std::vector<double> positions;  ///< x, initially the mesh's vertices
  Problem problem;
  Uniform developability, edges, smoothing, fit;
};

/// Weight times the covariance energy of every star (developable.hpp); weight times ‖x_a − x_b‖ − L
/// for each edge with initial length L; weight times the edge terms of smooth(); and weight times
/// x_i − u_i for the vertices of the boundary, or for every tenth vertex of a closed mesh.
///
/// Throws Error{InvalidArgument} as developable() does.
std::unique_ptr<Multi> multi(const TriangleMesh& mesh);

}  // namespace topograd::problems
