// Weights of the edges of a pose graph.
#include "pose_graph_weights.hpp"

#include <Eigen/Cholesky>
#include <Eigen/LU>

namespace topograd {
namespace {

using Information = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;

Eigen::MatrixXd information(const PoseGraph::Edge& edge, int first, int size) {
  return Eigen::Map<const Information>(edge.information.data()).block(first, first, size, size);
}

}  // namespace

ChordalWeights chordal_weights(const PoseGraph::Edge& edge, int dimension) {
  const double translation = dimension / information(edge, 0, dimension).inverse().trace();
  if (dimension == 2) return {translation, edge.information[2 * 6 + 2]};
  return {translation, 3 / (2 * information(edge, 3, 3).inverse().trace())};
}

Eigen::MatrixXd information_factor(const PoseGraph::Edge& edge, int dimension) {
  return Eigen::LLT<Eigen::MatrixXd>(information(edge, 0, dimension == 2 ? 3 : 6)).matrixL();
}

Eigen::MatrixXd information_root(const PoseGraph::Edge& edge, int dimension) {
  const Eigen::MatrixXd from_the_end = information(edge, 0, dimension == 2 ? 3 : 6).reverse();
  const Eigen::MatrixXd factor = Eigen::LLT<Eigen::MatrixXd>(from_the_end).matrixL();
  return factor.transpose().reverse();
}

}  // namespace topograd
