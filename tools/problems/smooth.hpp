// smooth(mesh): cotangent smoothing with differentiated weights.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::problems {

/// The noise of the reference problem.
inline constexpr double kReferenceNoise = 0.01;

/// The positions a_i that smooth() uses as start and as data.
std::vector<double> noisy_positions(const TriangleMesh& mesh, double noise = kReferenceNoise);

/// The problem and its memory.
struct Smooth {
  std::vector<double> positions;  ///< x, initially the noisy positions
  Problem problem;
};

/// With n_i the normalised sum of the face cross products at vertex i and D the diagonal of the
/// bounding box, noisy positions are a_i = u_i + noise D n_i (sin 12.9898 i + sin 78.233 i + sin
/// 37.719 i) / 3. Residuals: x_i − a_i, and for each edge of two triangles √max(w, 10⁻⁴) (x_i −
/// x_j), with w = ½ (cot α + cot β) at the current positions.
///
///   share  of the residuals of vertices, then of edges; the others are left out
///   noise  finite, >= 0; 0: a_i = u_i
///
/// Throws Error{InvalidArgument} for a mesh without triangles and for other noise, and what
/// check_cotangents() throws.
std::unique_ptr<Smooth> smooth(const TriangleMesh& mesh, Share share = {},
                               double noise = kReferenceNoise);

/// Throws Error{InvalidArgument} that names the vertices if an edge of two triangles has one
/// without area, whose angles have no cotangent. Throws what interior_edges() throws.
void check_cotangents(const TriangleMesh& mesh);

/// Adds the edge terms for the vertices `x` of a mesh, multiplied by `weight`.
///
///   slice  numbers of interior_edges(); the others are left out
void add_cotangent_smoothing(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                             const Uniform* weight = nullptr, Slice slice = {0, ~std::uint64_t{0}});

}  // namespace topograd::problems
