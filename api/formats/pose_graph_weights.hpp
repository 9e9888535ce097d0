// Weights of the edges of a pose graph.
#pragma once

#include "pose_graph.hpp"

#include <Eigen/Core>

namespace topograd {

/// Weights of the chordal objective.
struct ChordalWeights {
  double translation = 0;  ///< τ
  double rotation = 0;     ///< κ
};
ChordalWeights chordal_weights(const PoseGraph::Edge& edge, int dimension);

/// Ω, 3 × 3 or 6 × 6.
Eigen::MatrixXd information_matrix(const PoseGraph::Edge& edge, int dimension);
/// True if the block of Ω that begins at row and column `first` is positive definite and finite.
bool has_definite_block(const PoseGraph::Edge& edge, int first, int size);
/// L with Ω = L Lᵀ, lower triangular, 3 × 3 or 6 × 6. Throws Error{InvalidArgument} if Ω is not
/// positive definite.
Eigen::MatrixXd information_factor(const PoseGraph::Edge& edge, int dimension);
/// M with Ω = Mᵀ M, lower triangular: ‖M e‖² = eᵀ Ω e. Throws likewise.
Eigen::MatrixXd information_root(const PoseGraph::Edge& edge, int dimension);

}  // namespace topograd
