// developable(mesh): energies that are 0 where a triangle mesh can be unrolled.
#pragma once

#include "mesh.hpp"

#include "../../frontend/problem.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// Energies of a vertex star, by Stein, Grinspun, Crane: Developability of Triangle Meshes (2018).
enum class Developability {
  /// The smallest eigenvalue of Σ_f θ_f N_f N_fᵀ, θ_f the interior angle at the vertex and N_f the
  /// unit normal.
  covariance,
  /// The least of Σ_P (1/n_P) Σ_{f, g ∈ P} |N_f − N_g|² over the ways to cut the star into two
  /// connected parts P of n_P triangles.
  hinge
};
std::string_view name(Developability energy);
/// Throws Error{InvalidArgument} that lists the names.
Developability parse_developability(std::string_view text);

/// The problem and the memory that it works on.
struct Developable {
  std::vector<double> positions;  ///< x, starts at the mesh's vertices
  Problem problem;
};

/// The sum of the energies of all vertex stars, with `edges` also the residuals of edges.hpp.
/// Throws Error{InvalidArgument} for a mesh without triangles, and as vertex_stars().
std::unique_ptr<Developable> developable(const TriangleMesh& mesh,
                                         Developability energy = Developability::covariance,
                                         bool edges = false);

/// Adds these energies for the vertices `x` of a mesh, times `weight`. Stars of one or two
/// triangles can always be unrolled and have none.
void add_developability(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                        Developability energy, const Uniform* weight = nullptr);

/// The energies of the stars at the mesh's vertices, one a vertex; 0 where there is none. Errors as
/// developable().
std::vector<double> star_energies(const TriangleMesh& mesh, Developability energy);

}  // namespace topograd::problems
