// Errors and residuals of the edges of a pose graph.
#include "pose_graph_problem.hpp"

#include "../../frontend/mat.hpp"
#include "../../frontend/quat.hpp"
#include "../../ir/error.hpp"
#include "pose_graph_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

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

/// Moves an angle into [−π, π).
Value wrapped(const Value& angle) {
  return angle - kTurn * floor((angle + std::numbers::pi) / kTurn);
}

Vec2 turned(const Value& angle, const Vec2& v) {
  const Value c = cos(angle), s = sin(angle);
  return {c * v.x - s * v.y, s * v.x + c * v.y};
}

/// A pose in the plane or in space as values: the number that the dimension does not have is 0.
struct Frame {
  Vec2 at = {literal(0), literal(0)};
  Value angle = literal(0);
  Vec3 position = {literal(0), literal(0), literal(0)};
  Quat turn = {literal(1), literal(0), literal(0), literal(0)};
};

Frame frame(const Element& e, const Parameters& t, const Parameters& r, int k, bool plane) {
  Frame out;
  if (plane) {
    out.at = e.vec2(t, k);
    out.angle = e.scalar(r, k);
  } else {
    out.position = e.vec3(t, k);
    out.turn = e.quat(r, k);
  }
  return out;
}

/// Moves `mount` from the frame of a pose into the frame of the graph.
Frame joined(const Frame& pose, const Frame& mount, bool plane) {
  Frame out = pose;
  if (plane) {
    out.at = pose.at + turned(pose.angle, mount.at);
    out.angle = pose.angle + mount.angle;
  } else {
    out.position = pose.position + rotate(pose.turn, mount.position);
    out.turn = pose.turn * mount.turn;
  }
  return out;
}

/// Returns the frame of a sensor; `datum` is the first number of its pose in the frame of the
/// pose.
Frame sensor(const Element& e, const Frame& pose, int datum, bool plane) {
  Frame mount;
  if (plane) {
    mount.at = e.data_vec2(datum);
    mount.angle = e.data(datum + 2);
  } else {
    mount.position = e.data_vec3(datum);
    mount.turn = {e.data(datum + 3), e.data(datum + 4), e.data(datum + 5), e.data(datum + 6)};
  }
  return joined(pose, mount, plane);
}

/// The error of an edge before it is weighted: in all objectives of the position in the frame of
/// the first pose (in a frame that does not turn Gauss–Newton takes five times as many steps), and
/// of the rotation. The first numbers of the element are the measured pose.
std::vector<Value> planar_error(const Element& e, const Frame& from, const Frame& to,
                                bool chordal) {
  const Value angle = to.angle - from.angle - e.data(2);
  const Vec2 moved = turned(-from.angle, to.at - from.at) - e.data_vec2(0);
  return {moved.x, moved.y, chordal ? 2.0 * sin(0.5 * angle) : wrapped(angle)};
}

std::vector<Value> spatial_error(const Element& e, const Frame& from, const Frame& to) {
  const Quat measured = {e.data(3), e.data(4), e.data(5), e.data(6)};
  const Quat turn = measured * conjugate(conjugate(from.turn) * to.turn);
  const Vec3 moved = rotate(conjugate(from.turn), to.position - from.position) - e.data_vec3(0);
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

/// Rows of the chordal objective: a weight for those of the position, and one for the others.
std::vector<Value> times_two_weights(const Element& e, int first_datum, std::vector<Value> rows,
                                     bool plane) {
  const std::size_t moved = plane ? 2 : 3;
  for (std::size_t k = 0; k < rows.size(); ++k)
    rows[k] = e.data(k < moved ? first_datum : first_datum + 1) * rows[k];
  return rows;
}

void append_lower(const Eigen::MatrixXd& matrix, std::vector<double>& data) {
  for (Eigen::Index i = 0; i < matrix.rows(); ++i)
    for (Eigen::Index j = 0; j <= i; ++j) data.push_back(matrix(i, j));
}

/// Numbers of a pose among the data.
int width_of_pose(bool plane) { return plane ? 3 : 7; }

/// Numbers of the weights of an edge among the data.
int weights_of_edge(bool plane, bool chordal) {
  if (chordal) return 2;
  return plane ? 6 : 21;
}

/// The weights of an edge as data of its residual.
void append_weights(const PoseGraph::Edge& edge, int dimension, PoseObjective objective,
                    std::vector<double>& data) {
  if (objective != PoseObjective::chordal)
    return append_lower(objective_root(edge, dimension, objective), data);
  const ChordalWeights weights = chordal_weights(edge, dimension);
  data.insert(data.end(), {std::sqrt(weights.translation), std::sqrt(2 * weights.rotation)});
}

/// Its 3 or 7 numbers: position, and angle or quaternion.
void append_pose(const Pose& pose, int dimension, std::vector<double>& data) {
  data.insert(data.end(), pose.position.begin(), pose.position.begin() + dimension);
  if (dimension == 2) {
    data.push_back(pose.angle());
  } else {
    data.insert(data.end(), pose.rotation.begin(), pose.rotation.end());
  }
}

/// Edges of one kind read the same parameter blocks and data besides their two poses.
enum class EdgeKind { plain, sensors, calibration, switched };
constexpr std::size_t kEdgeKinds = 4;

EdgeKind kind_of(const PoseGraph::Edge& edge) {
  if (edge.switched_by != PoseGraph::kNone) return EdgeKind::switched;
  if (edge.calibration != PoseGraph::kNone) return EdgeKind::calibration;
  const bool plain = edge.from_sensor == PoseGraph::kNone && edge.to_sensor == PoseGraph::kNone;
  return plain ? EdgeKind::plain : EdgeKind::sensors;
}

/// The edges of each kind, in the order of the graph.
std::array<std::vector<const PoseGraph::Edge*>, kEdgeKinds> edges_by_kind(const PoseGraph& graph) {
  std::array<std::vector<const PoseGraph::Edge*>, kEdgeKinds> out;
  for (const PoseGraph::Edge& edge : graph.edges)
    out[static_cast<std::size_t>(kind_of(edge))].push_back(&edge);
  return out;
}

/// The two frames between which an edge measures.
std::pair<Frame, Frame> frames_of_edge(const Element& e, EdgeKind kind, const Parameters& t,
                                       const Parameters& r, bool plane, bool chordal) {
  const Frame from = frame(e, t, r, 0, plane), to = frame(e, t, r, 1, plane);
  if (kind == EdgeKind::sensors) {
    const int width = width_of_pose(plane), first = width + weights_of_edge(plane, chordal);
    return {sensor(e, from, first, plane), sensor(e, to, first + width, plane)};
  }
  if (kind == EdgeKind::calibration) {
    const Frame mount = frame(e, t, r, 2, plane);
    return {joined(from, mount, plane), joined(to, mount, plane)};
  }
  return {from, to};
}

/// The weighted error of an edge.
std::vector<Value> edge_rows(const Element& e, const Frame& from, const Frame& to, bool plane,
                             bool chordal) {
  std::vector<Value> rows = plane ? planar_error(e, from, to, chordal) : spatial_error(e, from, to);
  const int width = width_of_pose(plane);
  return chordal ? times_two_weights(e, width, std::move(rows), plane)
                 : times_lower(e, width, rows);
}

/// A point minus the one at a datum.
std::vector<Value> point_error(const Element& e, const Vec2& point, int datum) {
  const Vec2 off = point - e.data_vec2(datum);
  return {off.x, off.y};
}
std::vector<Value> point_error(const Element& e, const Vec3& point, int datum) {
  const Vec3 off = point - e.data_vec3(datum);
  return {off.x, off.y, off.z};
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

PoseGraphProblem::PoseGraphProblem(PoseGraph graph, const PoseGraphOptions& options)
    : graph_(std::move(graph)), options_(options) {
  if (graph_.measurements() == 0)
    throw Error(ErrorCode::InvalidArgument, "pose graph: expected edges, got none");
  require_information(graph_, options_.objective);
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
  add_landmarks();
  add_switches();
  for (const auto& edges : edges_by_kind(graph_)) add_edges(edges);
  add_sightings(false);
  add_sightings(true);
  add_priors(PoseGraph::Prior::Of::pose);
  add_priors(PoseGraph::Prior::Of::position);
  add_priors(PoseGraph::Prior::Of::landmark);
  add_switch_priors();
  const std::vector<bool> anchors = graph_.anchors();
  for (std::size_t k = 0; k < graph_.size(); ++k) {
    if (!anchors[k]) continue;
    problem_.set_constant(positions_, k);
    problem_.set_constant(rotations_, k);
  }
}

/// Numbers of an element: the measured pose, the weights, and the poses of sensors.
void PoseGraphProblem::add_edges(std::span<const PoseGraph::Edge* const> edges) {
  const Slice slice = options_.share.slice(edges.size());
  if (slice.size() == 0) return;
  const EdgeKind kind = kind_of(*edges.front());
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const PoseGraph::Edge& edge = *edges[k];
    indices.insert(indices.end(), {edge.from, edge.to});
    if (kind == EdgeKind::calibration) indices.push_back(edge.calibration);
    if (kind == EdgeKind::switched) indices.push_back(edge.switched_by);
    append_pose(edge.measured, graph_.dimension, data);
    append_weights(edge, graph_.dimension, options_.objective, data);
    if (kind != EdgeKind::sensors) continue;
    append_pose(graph_.offset(edge.from_sensor), graph_.dimension, data);
    append_pose(graph_.offset(edge.to_sensor), graph_.dimension, data);
  }
  const auto residual = [kind, plane = graph_.dimension == 2,
                         chordal = options_.objective == PoseObjective::chordal, t = positions_,
                         r = rotations_, s = switches_](const Element& e) {
    const auto [from, to] = frames_of_edge(e, kind, t, r, plane, chordal);
    std::vector<Value> rows = edge_rows(e, from, to, plane, chordal);
    if (kind == EdgeKind::switched)
      for (Value& row : rows) row = e.scalar(s, 2) * row;
    return rows;
  };
  problem_.add_residuals(
      slice.size(), residual,
      {.indices = indices, .data = data, .loss = options_.loss, .label = "edge"});
}

void PoseGraphProblem::add_switches() {
  if (graph_.switches.empty()) return;
  for (const PoseGraph::Switch& one : graph_.switches) switch_values_.push_back(one.value);
  switches_ = problem_.add_parameters(switch_values_, 1, "switches");
  for (std::size_t k = 0; k < graph_.switches.size(); ++k) {
    problem_.set_bounds(switches_, k, 0, 0, 1);
    if (graph_.switches[k].fixed) problem_.set_constant(switches_, k);
  }
}

void PoseGraphProblem::add_switch_priors() {
  std::vector<const PoseGraph::Edge*> priors;
  for (const PoseGraph::Prior& prior : graph_.priors)
    if (prior.of == PoseGraph::Prior::Of::switched) priors.push_back(&prior.edge);
  const Slice slice = options_.share.slice(priors.size());
  if (slice.size() == 0) return;
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    indices.push_back(priors[k]->to);
    data.insert(data.end(),
                {priors[k]->measured.position[0], std::sqrt(priors[k]->information[0])});
  }
  const auto residual = [s = switches_](const Element& e) {
    return std::vector<Value>{e.data(1) * (e.scalar(s, 0) - e.data(0))};
  };
  problem_.add_residuals(slice.size(), residual,
                         {.indices = indices, .data = data, .label = "switch prior"});
}

void PoseGraphProblem::add_landmarks() {
  if (graph_.landmarks.empty()) return;
  for (const PoseGraph::Landmark& landmark : graph_.landmarks)
    landmark_values_.insert(landmark_values_.end(), landmark.position.begin(),
                            landmark.position.begin() + graph_.dimension);
  landmarks_ = problem_.add_parameters(landmark_values_, graph_.dimension, "landmarks");
  for (std::size_t k = 0; k < graph_.landmarks.size(); ++k)
    if (graph_.landmarks[k].fixed) problem_.set_constant(landmarks_, k);
}

/// Numbers of an element: what is measured, the pose of the sensor, and the weights.
void PoseGraphProblem::add_sightings(bool bearings) {
  const int dimension = graph_.dimension;
  const bool plane = dimension == 2, chordal = options_.objective == PoseObjective::chordal;
  const int size = bearings ? 1 : dimension;
  std::vector<const PoseGraph::Sighting*> seen;
  for (const PoseGraph::Sighting& one : graph_.sightings)
    if (one.bearing == bearings) seen.push_back(&one);
  const Slice slice = options_.share.slice(seen.size());
  if (slice.size() == 0) return;
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const PoseGraph::Edge& edge = seen[k]->edge;
    indices.insert(indices.end(), {edge.from, edge.to});
    if (bearings) {
      data.push_back(edge.measured.angle());
    } else {
      data.insert(data.end(), edge.measured.position.begin(),
                  edge.measured.position.begin() + dimension);
    }
    append_pose(graph_.offset(seen[k]->sensor), dimension, data);
    append_lower(point_root(edge, size, options_.objective), data);
  }
  const auto residual = [=, t = positions_, r = rotations_, l = landmarks_](const Element& e) {
    const Frame from = sensor(e, frame(e, t, r, 0, plane), size, plane);
    const int first_weight = size + (plane ? 3 : 7);
    if (!plane) {
      const Vec3 point = rotate(conjugate(from.turn), e.vec3(l, 1) - from.position);
      return times_lower(e, first_weight, point_error(e, point, 0));
    }
    const Vec2 point = turned(-from.angle, e.vec2(l, 1) - from.at);
    if (!bearings) return times_lower(e, first_weight, point_error(e, point, 0));
    const Value off = atan2(point.y, point.x) - e.data(0);
    return times_lower(e, first_weight, {chordal ? 2.0 * sin(0.5 * off) : wrapped(off)});
  };
  problem_.add_residuals(slice.size(), residual,
                         {.indices = indices,
                          .data = data,
                          .loss = options_.loss,
                          .label = bearings ? "bearing" : "sighting"});
}

/// Numbers of an element: the measured pose and the pose of the sensor, or a point, and weights.
void PoseGraphProblem::add_priors(PoseGraph::Prior::Of of) {
  const int dimension = graph_.dimension;
  const bool plane = dimension == 2, chordal = options_.objective == PoseObjective::chordal;
  const bool of_pose = of == PoseGraph::Prior::Of::pose;
  std::vector<const PoseGraph::Prior*> priors;
  for (const PoseGraph::Prior& one : graph_.priors)
    if (one.of == of) priors.push_back(&one);
  const Slice slice = options_.share.slice(priors.size());
  if (slice.size() == 0) return;
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const PoseGraph::Edge& edge = priors[k]->edge;
    indices.push_back(edge.to);
    if (of_pose) {
      append_pose(edge.measured, dimension, data);
      append_pose(graph_.offset(priors[k]->sensor), dimension, data);
      append_lower(objective_root(edge, dimension, options_.objective), data);
    } else {
      data.insert(data.end(), edge.measured.position.begin(),
                  edge.measured.position.begin() + dimension);
      append_lower(point_root(edge, dimension, options_.objective), data);
    }
  }
  const Parameters points = of == PoseGraph::Prior::Of::landmark ? landmarks_ : positions_;
  const auto residual = [=, t = positions_, r = rotations_](const Element& e) {
    if (!of_pose) {
      return times_lower(
          e, dimension,
          plane ? point_error(e, e.vec2(points, 0), 0) : point_error(e, e.vec3(points, 0), 0));
    }
    const int width = plane ? 3 : 7;
    const Frame to = sensor(e, frame(e, t, r, 0, plane), width, plane);
    return times_lower(
        e, 2 * width,
        plane ? planar_error(e, Frame(), to, chordal) : spatial_error(e, Frame(), to));
  };
  problem_.add_residuals(slice.size(), residual,
                         {.indices = indices, .data = data, .label = "prior"});
}

SolverOptions PoseGraphProblem::fitting_options() const {
  SolverOptions options = solver_options();
  const auto is_calibration = [](const PoseGraph::Edge& edge) {
    return edge.calibration != PoseGraph::kNone;
  };
  if (graph_.measurements() != graph_.edges.size() || !graph_.switches.empty() ||
      std::ranges::any_of(graph_.edges, is_calibration))
    options.method = Method::levenberg_marquardt;
  return options;
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
  for (std::size_t k = 0; k < out.switches.size(); ++k) out.switches[k].value = switch_values_[k];
  for (std::size_t k = 0; k < out.landmarks.size(); ++k)
    for (std::size_t d = 0; d < dimension; ++d)
      out.landmarks[k].position[d] = landmark_values_[dimension * k + d];
  return out;
}

}  // namespace topograd
