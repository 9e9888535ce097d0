// Errors of the edges of a pose graph.
#include "pose_graph_objective.hpp"

#include "pose_graph_weights.hpp"

#include <cmath>
#include <numbers>

namespace topograd {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

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

/// What an edge between poses adds.
struct Squares {
  double objective = 0, chi2 = 0;
};

Squares edge_squares(const PoseGraph::Edge& edge, const Pose& between, int d,
                     PoseObjective objective) {
  const Eigen::VectorXd e = geodesic_error(edge, between, d);
  const double chi2 = e.dot(information_matrix(edge, d) * e);
  switch (objective) {
    case PoseObjective::chordal: return {chordal_error(edge, between, d), chi2};
    case PoseObjective::geodesic: return {(information_factor(edge, d) * e).squaredNorm(), chi2};
    case PoseObjective::g2o:
      return {e.dot(information_matrix(in_measured_frame(edge, d), d) * e), chi2};
    case PoseObjective::chi2: break;
  }
  return {chi2, chi2};
}

/// What a point adds whose coordinates are off by e.
Squares point_squares(const PoseGraph::Edge& edge, const Eigen::VectorXd& e,
                      PoseObjective objective) {
  const auto size = static_cast<int>(e.size());
  const Eigen::MatrixXd omega = information_matrix(edge, 3).topLeftCorner(size, size);
  const double chi2 = e.dot(omega * e);
  if (objective == PoseObjective::chi2 || objective == PoseObjective::g2o) return {chi2, chi2};
  return {(point_root(edge, size, objective) * e).squaredNorm(), chi2};
}

Eigen::VectorXd difference(const Pose& at, const PoseGraph::Edge& edge, int d) {
  return Eigen::Vector3d(Eigen::Vector3d(at.position.data()) -
                         Eigen::Vector3d(edge.measured.position.data()))
      .head(d);
}

Squares sighting_squares(const PoseGraph& graph, const PoseGraph::Sighting& seen,
                         PoseObjective objective) {
  const PoseGraph::Edge& edge = seen.edge;
  const Pose sensor = graph.poses[edge.from] * graph.offset(seen.sensor);
  const Pose point = sensor.inverse() * Pose{graph.landmarks[edge.to].position};
  if (!seen.bearing)
    return point_squares(edge, difference(point, edge, graph.dimension), objective);
  const double off = std::remainder(
      std::atan2(point.position[1], point.position[0]) - edge.measured.angle(), kTurn);
  Squares out = point_squares(edge, Eigen::VectorXd::Constant(1, off), PoseObjective::chi2);
  const double sine = 2 * std::sin(off / 2);
  if (objective == PoseObjective::chordal) out.objective = edge.information[0] * sine * sine;
  return out;
}

Squares prior_squares(const PoseGraph& graph, const PoseGraph::Prior& prior,
                      PoseObjective objective) {
  const PoseGraph::Edge& edge = prior.edge;
  const int d = graph.dimension;
  switch (prior.of) {
    case PoseGraph::Prior::Of::pose:
      return edge_squares(edge, graph.poses[edge.to] * graph.offset(prior.sensor), d, objective);
    case PoseGraph::Prior::Of::position:
      return point_squares(edge, difference(graph.poses[edge.to], edge, d), objective);
    case PoseGraph::Prior::Of::switched: {
      const double off = graph.switches[edge.to].value - edge.measured.position[0];
      return {edge.information[0] * off * off, edge.information[0] * off * off};
    }
    case PoseGraph::Prior::Of::landmark: break;
  }
  return point_squares(edge, difference(Pose{graph.landmarks[edge.to].position}, edge, d),
                       objective);
}

}  // namespace

PoseGraphErrors pose_graph_errors(const PoseGraph& graph, PoseObjective objective) {
  require_information(graph, objective);
  PoseGraphErrors errors;
  const auto add = [&errors](std::vector<double>& list, const Squares& squares) {
    list.push_back(squares.objective);
    errors.objective += squares.objective;
    errors.chi2 += squares.chi2;
  };
  for (const PoseGraph::Edge& edge : graph.edges) {
    const Pose between = graph.start_of(edge).inverse() * graph.end_of(edge);
    Squares squares = edge_squares(edge, between, graph.dimension, objective);
    if (edge.switched_by != PoseGraph::kNone) {
      const double on = graph.switches[edge.switched_by].value;
      squares = {on * on * squares.objective, on * on * squares.chi2};
    }
    add(errors.edges, squares);
  }
  for (const PoseGraph::Sighting& seen : graph.sightings)
    add(errors.sightings, sighting_squares(graph, seen, objective));
  for (const PoseGraph::Prior& prior : graph.priors)
    add(errors.priors, prior_squares(graph, prior, objective));
  return errors;
}

}  // namespace topograd
