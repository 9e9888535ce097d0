// Errors of the edges of a pose graph.
#include "pose_graph_objective.hpp"

#include "../../ir/error.hpp"
#include "pose_graph_weights.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace topograd {
namespace {

/// e of the geodesic objective and of χ².
Eigen::VectorXd geodesic_error(const PoseGraph::Edge& edge, const Pose& between, int dimension) {
  const Pose turn = edge.measured * between.inverse();
  Eigen::Vector3d moved;
  for (Eigen::Index d = 0; d < 3; ++d) {
    const auto k = static_cast<std::size_t>(d);
    moved[d] = between.position[k] - edge.measured.position[k];
  }
  Eigen::VectorXd e(dimension == 2 ? 3 : 6);
  if (dimension == 2) {
    e << moved.head<2>(), -turn.angle();
  } else {
    e << moved, std::copysign(2, turn.rotation[0]) * Eigen::Vector3d(&turn.rotation[1]);
  }
  return e;
}

/// For two rotations with the angle θ between them ‖R − S‖²_F = 4 (1 − cos θ) = 8 sin²(θ/2), in the
/// plane and in space, and sin(θ/2) is the length of the vector of the quaternion between them.
double chordal_error(const PoseGraph::Edge& edge, const Pose& between, int dimension) {
  const Pose turn = edge.measured * between.inverse();
  const ChordalWeights weights = chordal_weights(edge, dimension);
  double sum = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    const double moved = between.position[d] - edge.measured.position[d];
    const double sine = turn.rotation[d + 1];
    sum += weights.translation * moved * moved + 8 * weights.rotation * sine * sine;
  }
  return sum;
}

}  // namespace

PoseGraphErrors pose_graph_errors(const PoseGraph& graph, PoseObjective objective) {
  PoseGraphErrors errors;
  const int d = graph.dimension;
  for (const PoseGraph::Edge& edge : graph.edges) {
    const Pose between = graph.poses[edge.from].inverse() * graph.poses[edge.to];
    const Eigen::VectorXd e = geodesic_error(edge, between, d);
    const double chi2 = e.dot(information_matrix(edge, d) * e);
    double squares = chi2;
    if (objective == PoseObjective::chordal) squares = chordal_error(edge, between, d);
    if (objective == PoseObjective::geodesic)
      squares = (information_factor(edge, d) * e).squaredNorm();
    errors.edges.push_back(squares);
    errors.objective += squares;
    errors.chi2 += chi2;
  }
  return errors;
}

}  // namespace topograd
