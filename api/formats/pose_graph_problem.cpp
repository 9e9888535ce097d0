// Residuals of the edges of a pose graph.
#include "pose_graph_problem.hpp"

#include "../../frontend/mat.hpp"
#include "../../frontend/quat.hpp"
#include "../../ir/error.hpp"
#include "pose_graph_weights.hpp"

#include <cmath>
#include <numbers>
#include <utility>

namespace topograd {
namespace {

/// Moves an angle into [−π, π).
Value wrapped(const Value& angle) {
  constexpr double kTurn = 2 * std::numbers::pi;
  return angle - kTurn * floor((angle + std::numbers::pi) / kTurn);
}

Vec2 turned(const Value& angle, const Vec2& v) {
  const Value c = cos(angle), s = sin(angle);
  return {c * v.x - s * v.y, s * v.x + c * v.y};
}

/// The error of an edge before it is weighted: in both objectives of the position in the frame of
/// the first pose (in a frame that does not turn Gauss–Newton takes five times as many steps), and
/// of the rotation. The first numbers of the element are the measured pose.
std::vector<Value> planar_error(const Element& e, const Parameters& t, const Parameters& r,
                                bool chordal) {
  const Value from = e.scalar(r, 0), angle = e.scalar(r, 1) - from - e.data(2);
  const Vec2 moved = turned(-from, e.vec2(t, 1) - e.vec2(t, 0)) - e.data_vec2(0);
  return {moved.x, moved.y, chordal ? 2.0 * sin(0.5 * angle) : wrapped(angle)};
}

std::vector<Value> spatial_error(const Element& e, const Parameters& t, const Parameters& r) {
  const Quat from = e.quat(r, 0), measured = {e.data(3), e.data(4), e.data(5), e.data(6)};
  const Quat turn = measured * conjugate(conjugate(from) * e.quat(r, 1));
  const Vec3 moved = rotate(conjugate(from), e.vec3(t, 1) - e.vec3(t, 0)) - e.data_vec3(0);
  // A rotation has two quaternions; take the one that turns by at most π: Ω may couple its vector
  // with the position.
  const Value two = select(turn.w < 0.0, literal(-2), literal(2));
  return {moved.x, moved.y, moved.z, two * turn.x, two * turn.y, two * turn.z};
}

/// Lower triangular rows times an error.
std::vector<Value> times_lower(const Element& e, int first_datum, const std::vector<Value>& error) {
  std::vector<Value> rows;
  int datum = first_datum;
  for (std::size_t i = 0; i < error.size(); ++i) {
    rows.push_back(e.data(datum++) * error[0]);
    for (std::size_t j = 1; j <= i; ++j) rows[i] = rows[i] + e.data(datum++) * error[j];
  }
  return rows;
}

void append_lower(const Eigen::MatrixXd& matrix, std::vector<double>& data) {
  for (Eigen::Index i = 0; i < matrix.rows(); ++i)
    for (Eigen::Index j = 0; j <= i; ++j) data.push_back(matrix(i, j));
}

/// The weights of an edge as data of its residual.
void append_weights(const PoseGraph::Edge& edge, int dimension, PoseObjective objective,
                    std::vector<double>& data) {
  switch (objective) {
    case PoseObjective::chordal: {
      const ChordalWeights weights = chordal_weights(edge, dimension);
      data.insert(data.end(), {std::sqrt(weights.translation), std::sqrt(2 * weights.rotation)});
      break;
    }
    case PoseObjective::geodesic: append_lower(information_factor(edge, dimension), data); break;
    case PoseObjective::chi2: append_lower(information_root(edge, dimension), data); break;
  }
}

}  // namespace

PoseGraphProblem::PoseGraphProblem(PoseGraph graph, const PoseGraphOptions& options)
    : graph_(std::move(graph)), options_(options) {
  if (graph_.edges.empty())
    throw Error(ErrorCode::InvalidArgument, "pose graph: expected edges, got none");
  const bool plane = graph_.dimension == 2;
  for (const Pose& pose : graph_.poses) {
    position_values_.insert(position_values_.end(), pose.position.begin(),
                            pose.position.begin() + graph_.dimension);
    if (plane) {
      rotation_values_.push_back(pose.angle());
    } else {
      rotation_values_.insert(rotation_values_.end(), pose.rotation.begin(), pose.rotation.end());
    }
  }
  positions_ = problem_.add_parameters(position_values_, graph_.dimension, "positions");
  rotations_ = problem_.add_parameters(rotation_values_, plane ? 1 : 4, "rotations");
  if (!plane) problem_.set_manifold(rotations_, Manifold::quaternion());
  add_edges();
  const std::vector<bool> anchors = graph_.anchors();
  for (std::size_t k = 0; k < graph_.size(); ++k) {
    if (!anchors[k]) continue;
    problem_.set_constant(positions_, k);
    problem_.set_constant(rotations_, k);
  }
}

void PoseGraphProblem::add_edges() {
  const bool plane = graph_.dimension == 2;
  const bool chordal = options_.objective == PoseObjective::chordal;
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  const Slice slice = options_.share.slice(graph_.edges.size());
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const PoseGraph::Edge& edge = graph_.edges[k];
    indices.insert(indices.end(), {edge.from, edge.to});
    const Pose& measured = edge.measured;
    data.insert(data.end(), measured.position.begin(),
                measured.position.begin() + graph_.dimension);
    if (plane) {
      data.push_back(measured.angle());
    } else {
      data.insert(data.end(), measured.rotation.begin(), measured.rotation.end());
    }
    append_weights(edge, graph_.dimension, options_.objective, data);
  }
  const auto residual = [plane, chordal, t = positions_, r = rotations_](const Element& e) {
    std::vector<Value> rows = plane ? planar_error(e, t, r, chordal) : spatial_error(e, t, r);
    const int first_weight = plane ? 3 : 7;
    const std::size_t moved = plane ? 2 : 3;
    if (!chordal) return times_lower(e, first_weight, rows);
    for (std::size_t k = 0; k < rows.size(); ++k)
      rows[k] = e.data(k < moved ? first_weight : first_weight + 1) * rows[k];
    return rows;
  };
  if (slice.size() == 0) return;
  problem_.add_residuals(
      slice.size(), residual,
      {.indices = indices, .data = data, .loss = options_.loss, .label = "edge"});
}

SolverOptions PoseGraphProblem::solver_options() {
  return {.method = Method::gauss_newton, .max_iterations = 100};
}

PoseGraph PoseGraphProblem::graph() const {
  PoseGraph out = graph_;
  const auto dimension = static_cast<std::size_t>(graph_.dimension);
  for (std::size_t k = 0; k < out.size(); ++k) {
    Pose& pose = out.poses[k];
    const double* t = &position_values_[dimension * k];
    if (dimension == 2) {
      pose = Pose::planar(t[0], t[1], rotation_values_[k]);
      continue;
    }
    for (std::size_t d = 0; d < 3; ++d) pose.position[d] = t[d];
    for (std::size_t d = 0; d < 4; ++d) pose.rotation[d] = rotation_values_[4 * k + d];
  }
  return out;
}

}  // namespace topograd
