// Starts of pose graphs: chains along spanning trees, and the chordal relaxation.
#include "pose_graph_start.hpp"

#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../../solver/solve.hpp"
#include "disjoint_sets.hpp"
#include "pose_graph_problem.hpp"
#include "pose_graph_weights.hpp"

#include <Eigen/Geometry>
#include <Eigen/LU>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace topograd {
namespace {

constexpr std::int64_t kNoEdge = -1;

/// For each pose the edge that leads to it from the pose before it in its tree; kNoEdge for roots.
struct SpanningTree {
  std::vector<std::int64_t> edge;
  std::vector<std::uint32_t> order;  ///< roots before leaves
};

/// Edges between successive names come first, as robots drive. Roots are known poses where a tree
/// has some.
SpanningTree spanning_tree(const PoseGraph& graph, const std::vector<bool>& known) {
  std::vector<std::vector<std::uint32_t>> around(graph.size());
  std::vector<std::uint32_t> edges(graph.edges.size());
  std::iota(edges.begin(), edges.end(), 0u);
  const auto is_step = [&](std::uint32_t e) {
    return std::abs(graph.ids[graph.edges[e].from] - graph.ids[graph.edges[e].to]) == 1;
  };
  std::ranges::stable_partition(edges, is_step);
  std::ranges::stable_partition(  // an edge that may be turned off comes last
      edges, [&](std::uint32_t e) { return graph.edges[e].switched_by == PoseGraph::kNone; });
  DisjointSets sets(graph.size());
  for (const std::uint32_t e : edges) {
    if (!sets.join(graph.edges[e].from, graph.edges[e].to)) continue;
    around[graph.edges[e].from].push_back(e);
    around[graph.edges[e].to].push_back(e);
  }
  SpanningTree tree{std::vector<std::int64_t>(graph.size(), kNoEdge), {}};
  std::vector<bool> seen(graph.size(), false);
  std::vector<std::uint32_t> roots(graph.size());
  std::iota(roots.begin(), roots.end(), 0u);
  std::ranges::stable_partition(roots, [&](std::uint32_t k) { return known[k]; });
  for (const std::uint32_t k : roots) {
    if (seen[k]) continue;
    seen[k] = true;
    std::size_t next = tree.order.size();
    for (tree.order.push_back(k); next < tree.order.size(); ++next) {
      const std::uint32_t at = tree.order[next];
      for (const std::uint32_t e : around[at]) {
        const std::uint32_t other =
            graph.edges[e].from == at ? graph.edges[e].to : graph.edges[e].from;
        if (seen[other]) continue;
        seen[other] = true;
        tree.edge[other] = e;
        tree.order.push_back(other);
      }
    }
  }
  return tree;
}

/// Moves poses that are not `known` to where the edges of the tree put them.
void chain_poses(PoseGraph& graph, const std::vector<bool>& known) {
  const SpanningTree tree = spanning_tree(graph, known);
  for (const std::uint32_t k : tree.order) {
    if (tree.edge[k] == kNoEdge || known[k]) continue;
    const PoseGraph::Edge& edge = graph.edges[static_cast<std::size_t>(tree.edge[k])];
    const Pose between = graph.between(edge);
    graph.poses[k] =
        edge.to == k ? graph.poses[edge.from] * between : graph.poses[edge.to] * between.inverse();
  }
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 3, 3>;

Matrix rotation_matrix(const Pose& pose, int dimension) {
  const auto& q = pose.rotation;
  return Eigen::Quaterniond(q[0], q[1], q[2], q[3])
      .toRotationMatrix()
      .topLeftCorner(dimension, dimension);
}

/// The rotation that is closest to a matrix. Source: Kabsch, 1976.
Eigen::Quaterniond closest_rotation(const Matrix& matrix) {
  const runtime::Svd svd = runtime::accurate_svd(matrix, runtime::SvdVectors::both);
  Eigen::MatrixXd u = svd.u;
  if ((u * svd.v.transpose()).determinant() < 0) u.col(u.cols() - 1) *= -1;
  Eigen::Matrix3d rotation = Eigen::Matrix3d::Identity();
  rotation.topLeftCorner(matrix.rows(), matrix.cols()) = u * svd.v.transpose();
  return Eigen::Quaterniond(rotation);
}

/// A linear problem: the first undamped step is its solution.
void solve_linear(Problem& problem) {
  solve(problem, {.backend = Backend::cpu,
                  .method = Method::gauss_newton,
                  .linear_solver = LinearSolver::cholesky,
                  .max_iterations = 2});
}

/// Weights of all edges. Those of zeros and of edges that may be turned off are small, so that no
/// pose is without any.
std::vector<ChordalWeights> relaxation_weights(const PoseGraph& graph) {
  constexpr double kLeast = 1e-9;  // of the largest
  std::vector<ChordalWeights> out;
  ChordalWeights most;
  for (const PoseGraph::Edge& edge : graph.edges) {
    const bool counts = edge.switched_by == PoseGraph::kNone;
    out.push_back(counts ? start_weights(edge, graph.dimension) : ChordalWeights{});
    most.translation = std::max(most.translation, out.back().translation);
    most.rotation = std::max(most.rotation, out.back().rotation);
  }
  if (most.translation == 0) most.translation = 1 / kLeast;
  if (most.rotation == 0) most.rotation = 1 / kLeast;
  for (ChordalWeights& weights : out) {
    weights.translation = std::max(weights.translation, kLeast * most.translation);
    weights.rotation = std::max(weights.rotation, kLeast * most.rotation);
  }
  return out;
}

/// The square root of the edge's weight, and its rotation by columns.
void append_rotation(const Pose& between, double rotation, int d, std::vector<double>& data) {
  data.push_back(std::sqrt(rotation));
  const Matrix measured = rotation_matrix(between, d);
  for (Eigen::Index j = 0; j < d; ++j)
    for (Eigen::Index i = 0; i < d; ++i) data.push_back(measured(i, j));
}

/// Rows of all matrices as blocks: row r of pose k is block r · poses + k.
void relax_rotations(PoseGraph& graph, const std::vector<ChordalWeights>& weights,
                     const std::vector<bool>& anchors) {
  const int d = graph.dimension;
  const auto width = static_cast<std::size_t>(d), poses = graph.size();
  std::vector<double> rows(width * width * poses);
  const auto row = [&](std::size_t r, std::size_t pose) {
    return Eigen::Map<Eigen::VectorXd>(&rows[width * (r * poses + pose)], d);
  };
  for (std::size_t k = 0; k < poses; ++k)
    for (std::size_t r = 0; r < width; ++r)
      row(r, k) = rotation_matrix(graph.poses[k], d).row(static_cast<Eigen::Index>(r)).transpose();
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (std::uint32_t r = 0; r < width; ++r) {
    const std::uint32_t first = r * static_cast<std::uint32_t>(poses);
    for (std::size_t k = 0; k < graph.edges.size(); ++k) {
      const PoseGraph::Edge& edge = graph.edges[k];
      indices.insert(indices.end(), {first + edge.from, first + edge.to});
      append_rotation(graph.between(edge), weights[k].rotation, d, data);
    }
  }
  Problem problem;
  const Parameters x = problem.add_parameters(rows, d, "rows of rotations");
  const auto residual = [d, x](const Element& e) {
    std::vector<Value> out;
    for (int j = 0; j < d; ++j) {
      Value moved = x(e.index(1), j);
      for (int i = 0; i < d; ++i) moved = moved - e.data(1 + d * j + i) * x(e.index(0), i);
      out.push_back(e.data(0) * moved);
    }
    return out;
  };
  problem.add_residuals(width * graph.edges.size(), residual, {.indices = indices, .data = data});
  for (std::size_t k = 0; k < width * poses; ++k)
    if (anchors[k % poses]) problem.set_constant(x, k);
  solve_linear(problem);
  for (std::size_t k = 0; k < poses; ++k) {
    if (anchors[k]) continue;
    Matrix matrix(d, d);
    for (std::size_t r = 0; r < width; ++r) matrix.row(static_cast<Eigen::Index>(r)) = row(r, k);
    const Eigen::Quaterniond q = closest_rotation(matrix);
    graph.poses[k].rotation = {q.w(), q.x(), q.y(), q.z()};
  }
}

void solve_positions(PoseGraph& graph, const std::vector<ChordalWeights>& weights,
                     const std::vector<bool>& anchors) {
  const int d = graph.dimension;
  const auto width = static_cast<std::size_t>(d);
  std::vector<double> positions, data;
  std::vector<std::uint32_t> indices;
  for (const Pose& pose : graph.poses)
    positions.insert(positions.end(), pose.position.begin(), pose.position.begin() + d);
  for (std::size_t k = 0; k < graph.edges.size(); ++k) {
    const PoseGraph::Edge& edge = graph.edges[k];
    indices.insert(indices.end(), {edge.from, edge.to});
    data.push_back(std::sqrt(weights[k].translation));
    const Pose step =
        Pose{{}, graph.poses[edge.from].rotation} * Pose{graph.between(edge).position};
    data.insert(data.end(), step.position.begin(), step.position.begin() + d);
  }
  Problem problem;
  const Parameters x = problem.add_parameters(positions, d, "positions");
  const auto residual = [d, x](const Element& e) {
    std::vector<Value> out;
    for (int k = 0; k < d; ++k)
      out.push_back(e.data(0) * (x(e.index(1), k) - x(e.index(0), k) - e.data(1 + k)));
    return out;
  };
  problem.add_residuals(graph.edges.size(), residual, {.indices = indices, .data = data});
  for (std::size_t k = 0; k < graph.size(); ++k)
    if (anchors[k]) problem.set_constant(x, k);
  solve_linear(problem);
  for (std::size_t k = 0; k < graph.size(); ++k)
    for (std::size_t n = 0; n < width; ++n) graph.poses[k].position[n] = positions[width * k + n];
}

/// Moves poses that the file does not have to where priors put them; true for these.
std::vector<bool> put_at_priors(PoseGraph& graph) {
  std::vector<bool> put(graph.size(), false);
  for (const PoseGraph::Prior& prior : graph.priors) {
    const std::uint32_t k = prior.edge.to;
    if (prior.of != PoseGraph::Prior::Of::pose || graph.given[k] || put[k]) continue;
    graph.poses[k] = prior.edge.measured * graph.offset(prior.sensor).inverse();
    put[k] = true;
  }
  return put;
}

/// By pose, whether it stays in a start that moves others: of each piece that edges connect the
/// anchors, or else its first pose with a prior, or else its first pose.
std::vector<bool> roots(const PoseGraph& graph) {
  std::vector<bool> out = graph.anchors();
  const std::vector<std::uint32_t> piece = graph.pieces_of_edges();
  std::vector<bool> held(graph.size(), false);
  for (std::size_t k = 0; k < graph.size(); ++k)
    if (out[k]) held[piece[k]] = true;
  const auto hold = [&](std::size_t k) {
    if (!held[piece[k]]) out[k] = held[piece[k]] = true;
  };
  for (const PoseGraph::Prior& prior : graph.priors)
    if (prior.of == PoseGraph::Prior::Of::pose) hold(prior.edge.to);
  for (std::size_t k = 0; k < graph.size(); ++k) hold(k);
  return out;
}

/// Lines in the plane on which a landmark lies: the sum of their normals' products.
struct Crossing {
  Eigen::Matrix2d normals = Eigen::Matrix2d::Zero();
  Eigen::Vector2d right = Eigen::Vector2d::Zero();
  Eigen::Vector2d ahead = Eigen::Vector2d::Zero();  ///< a point on the first line

  void add(const Pose& sensor, double angle) {
    const double direction = sensor.angle() + angle;
    const Eigen::Vector2d at(sensor.position[0], sensor.position[1]),
        along(std::cos(direction), std::sin(direction)), normal(-along.y(), along.x());
    if (normals.isZero(0)) ahead = at + along;
    normals += normal * normal.transpose();
    right += normal * normal.dot(at);
  }
  /// Where the lines meet; a point on the first one if they are parallel.
  Eigen::Vector2d point() const {
    constexpr double kParallel = 1e-6;
    if (normals.determinant() <= kParallel * normals.trace() * normals.trace()) return ahead;
    return normals.inverse() * right;
  }
};

/// Puts landmarks where their first sightings or priors say, or where directions meet.
void put_landmarks(PoseGraph& graph, const std::vector<bool>& known) {
  std::vector<bool> put = known;
  std::vector<Crossing> crossings(graph.landmarks.size());
  for (const PoseGraph::Sighting& seen : graph.sightings) {
    const std::uint32_t k = seen.edge.to;
    const Pose sensor = graph.poses[seen.edge.from] * graph.offset(seen.sensor);
    if (seen.bearing) crossings[k].add(sensor, seen.edge.measured.angle());
    if (seen.bearing || put[k]) continue;
    graph.landmarks[k].position = (sensor * Pose{seen.edge.measured.position}).position;
    put[k] = true;
  }
  for (const PoseGraph::Prior& prior : graph.priors) {
    if (prior.of != PoseGraph::Prior::Of::landmark || put[prior.edge.to]) continue;
    graph.landmarks[prior.edge.to].position = prior.edge.measured.position;
    put[prior.edge.to] = true;
  }
  for (std::size_t k = 0; k < crossings.size(); ++k) {
    if (put[k] || crossings[k].normals.isZero(0)) continue;
    const Eigen::Vector2d point = crossings[k].point();
    graph.landmarks[k].position = {point.x(), point.y(), 0};
  }
}

}  // namespace

PoseGraph with_start(PoseGraph graph, PoseStart start) {
  const std::vector<bool> put = put_at_priors(graph);
  std::vector<bool> known;  // landmarks
  for (const PoseGraph::Landmark& landmark : graph.landmarks)
    known.push_back(landmark.fixed || (start == PoseStart::file && landmark.given));
  switch (start) {
    case PoseStart::file: {
      std::vector<bool> given = graph.given;
      for (std::size_t k = 0; k < put.size(); ++k) given[k] = given[k] || put[k];
      chain_poses(graph, given);
      break;
    }
    case PoseStart::odometry: chain_poses(graph, roots(graph)); break;
    case PoseStart::chordal:
      if (!graph.edges.empty()) {
        const std::vector<ChordalWeights> weights = relaxation_weights(graph);
        relax_rotations(graph, weights, roots(graph));
        solve_positions(graph, weights, roots(graph));
      }
      break;
  }
  put_landmarks(graph, known);
  return graph;
}

}  // namespace topograd
