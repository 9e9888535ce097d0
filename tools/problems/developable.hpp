// developable(mesh): energies that are 0 if a mesh can be unrolled; multi(mesh) adds others.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/enum_table.hpp"
#include "../../ir/share.hpp"
#include "mesh.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// Energies of a vertex star: Stein, Grinspun, Crane, Developability of Triangle Meshes (2018).
enum class Developability {
  /// The smallest eigenvalue of Σ_f θ_f N_f N_fᵀ, where θ_f is the interior angle at the vertex and
  /// N_f the unit normal.
  covariance,
  /// The minimum of Σ_P (1/n_P) Σ_{f, g ∈ P} |N_f − N_g|² over all cuts of the star into two
  /// connected parts P of n_P triangles.
  hinge
};
TG_ENUM_NAMES(Developability)
/// Throws Error{InvalidArgument} that lists the names.
inline Developability parse_developability(std::string_view text) {
  return parse_enum<Developability>("developable: --energy", text);
}

/// The problem and its memory.
struct Developable {
  std::vector<double> positions;  ///< x, initially the mesh's vertices
  Problem problem;
};

/// The sum of the energies of all vertex stars, and with `edges` also the residuals of mesh.hpp.
///
///   share  of stars and residuals, in this order; the others are left out
///
/// Throws Error{InvalidArgument} for a mesh without triangles, for one without stars and edges that
/// count, and what vertex_stars() throws.
std::unique_ptr<Developable> developable(const TriangleMesh& mesh,
                                         Developability energy = Developability::covariance,
                                         bool edges = false, Share share = {});

/// Adds these energies for the vertices `x` of a mesh, multiplied by `weight`. Stars of one or two
/// triangles can always be unrolled and are omitted.
void add_developability(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                        Developability energy, const Uniform* weight = nullptr);

/// The energies of the stars at the mesh's vertices, one per vertex; 0 if there is none. Throws
/// what developable() throws.
std::vector<double> star_energies(const TriangleMesh& mesh, Developability energy);

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
