// Weights of the edges of a pose graph.
#pragma once

#include "pose_graph_problem.hpp"

#include <Eigen/Core>

#include <string>

namespace topograd {

/// Weights of the chordal objective.
struct ChordalWeights {
  double translation = 0;  ///< τ
  double rotation = 0;     ///< κ
};
/// Throws Error{InvalidArgument} with file and line for an information matrix that the objective
/// does not take: chordal takes blocks that are positive definite or zero, the others take
/// matrices that are positive semidefinite. The functions below are for matrices that it takes.
void require_information(const PoseGraph& graph, PoseObjective objective);

/// Weights of an edge between poses; 0 for a block that is not positive definite.
ChordalWeights chordal_weights(const PoseGraph::Edge& edge, int dimension);
/// The weight τ of a measured position alone.
double chordal_weight(const PoseGraph::Edge& edge, int dimension);
/// The same for starts: blocks that are singular have the mean of their diagonal as weight.
ChordalWeights start_weights(const PoseGraph::Edge& edge, int dimension);

/// Ω, 3 × 3 or 6 × 6.
Eigen::MatrixXd information_matrix(const PoseGraph::Edge& edge, int dimension);
/// True if the block of Ω that begins at row and column `first` is positive definite and finite.
bool has_definite_block(const PoseGraph::Edge& edge, int first, int size);
/// True if that block is positive semidefinite and finite, but for rounding.
bool has_semidefinite_block(const PoseGraph::Edge& edge, int first, int size);
/// The least eigenvalue of that block, with three digits, for messages.
std::string least_eigenvalue(const PoseGraph::Edge& edge, int first, int size);
/// The edge with the information matrix Bᵀ Ω B: its χ² is the one that g2o defines. g2o's errors
/// are B e, with the rotation by R̃ᵀ in B and, in space, a half for the vector of the quaternion.
PoseGraph::Edge in_measured_frame(const PoseGraph::Edge& edge, int dimension);
/// L with Ω = L Lᵀ, lower triangular, for the first `size` rows of Ω.
Eigen::MatrixXd lower_factor(const PoseGraph::Edge& edge, int size);
/// M with Ω = Mᵀ M, lower triangular: ‖M e‖² = eᵀ Ω e.
Eigen::MatrixXd lower_root(const PoseGraph::Edge& edge, int size);
/// The same for the 3 or 6 rows of an edge between poses.
Eigen::MatrixXd information_factor(const PoseGraph::Edge& edge, int dimension);
Eigen::MatrixXd information_root(const PoseGraph::Edge& edge, int dimension);
/// M of the objective: its value is ‖M e‖² with e of an edge between poses.
Eigen::MatrixXd objective_root(const PoseGraph::Edge& edge, int dimension, PoseObjective objective);
/// The same for a measured point, or, if `size` is 1, for a measured direction.
Eigen::MatrixXd point_root(const PoseGraph::Edge& edge, int size, PoseObjective objective);

}  // namespace topograd
