// smooth(mesh): cotangent smoothing with weights that are differentiated.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"

#include <memory>
#include <vector>

namespace topograd::problems {

/// The positions a_i that smooth() starts from and fits.
std::vector<double> noisy_positions(const TriangleMesh& mesh);

/// The problem and the memory that it works on.
struct Smooth {
  std::vector<double> positions;  ///< x, starts at the noisy positions
  Problem problem;
};

/// With n_i the normalised sum of the face cross products at vertex i and D the diagonal of the
/// bounding box, noisy positions are a_i = u_i + 0.01 D n_i (sin 12.9898 i + sin 78.233 i +
/// sin 37.719 i) / 3. Residuals: x_i − a_i, and for each edge of two triangles
/// √max(w, 10⁻⁴) (x_i − x_j), w = ½ (cot α + cot β) from the current positions.
///
/// Throws Error{InvalidArgument} for a mesh without triangles, and as interior_edges().
std::unique_ptr<Smooth> smooth(const TriangleMesh& mesh);

/// Adds the edge terms for the vertices `x` of a mesh, times `weight`.
void add_cotangent_smoothing(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                             const Uniform* weight = nullptr);

}  // namespace topograd::problems
