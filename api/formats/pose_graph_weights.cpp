// Weights of the edges of a pose graph.
#include "pose_graph_weights.hpp"

#include "../../ir/error.hpp"

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <string>

namespace topograd {
namespace {

using Information = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;

Eigen::MatrixXd information(const PoseGraph::Edge& edge, int first, int size) {
  return Eigen::Map<const Information>(edge.information.data()).block(first, first, size, size);
}

void require_definite(const PoseGraph::Edge& edge, int dimension) {
  if (has_definite_block(edge, 0, dimension == 2 ? 3 : 6)) return;
  throw Error(ErrorCode::InvalidArgument,
              "pose graph: expected positive definite information matrices, which this objective "
              "reads whole, got another one" +
                  (edge.line == 0 ? "" : " in line " + std::to_string(edge.line)) +
                  "; the objective chordal reads only its blocks of position and of rotation");
}

}  // namespace

Eigen::MatrixXd information_matrix(const PoseGraph::Edge& edge, int dimension) {
  return information(edge, 0, dimension == 2 ? 3 : 6);
}

bool has_definite_block(const PoseGraph::Edge& edge, int first, int size) {
  const Eigen::LLT<Eigen::MatrixXd> root(information(edge, first, size));
  return root.info() == Eigen::Success && root.matrixLLT().allFinite();
}

ChordalWeights chordal_weights(const PoseGraph::Edge& edge, int dimension) {
  const double translation = dimension / information(edge, 0, dimension).inverse().trace();
  if (dimension == 2) return {translation, edge.information[2 * 6 + 2]};
  return {translation, 3 / (2 * information(edge, 3, 3).inverse().trace())};
}

Eigen::MatrixXd information_factor(const PoseGraph::Edge& edge, int dimension) {
  require_definite(edge, dimension);
  return Eigen::LLT<Eigen::MatrixXd>(information_matrix(edge, dimension)).matrixL();
}

Eigen::MatrixXd information_root(const PoseGraph::Edge& edge, int dimension) {
  require_definite(edge, dimension);
  const Eigen::MatrixXd from_the_end = information_matrix(edge, dimension).reverse();
  const Eigen::MatrixXd factor = Eigen::LLT<Eigen::MatrixXd>(from_the_end).matrixL();
  return factor.transpose().reverse();
}

}  // namespace topograd
