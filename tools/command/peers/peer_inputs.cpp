// Problems as other solvers take them.
#include "peer_inputs.hpp"

#include "../../../api/formats/bal.hpp"
#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../../api/formats/pose_graph_weights.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../problems/arap.hpp"
#include "../../problems/bundle.hpp"
#include "../../problems/developable.hpp"
#include "../../problems/mesh.hpp"
#include "../../problems/smooth.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/mesh_problem.hpp"
#include "../input/photo_model.hpp"
#include "../input/pose_graph_file.hpp"

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>

namespace topograd::command {
namespace {

void add_target(PeerTerm& targets, std::uint32_t block, double weight,
                const std::array<double, 3>& c) {
  targets.blocks.push_back(block);
  targets.numbers.insert(targets.numbers.end(), {weight, c[0], c[1], c[2]});
}

PeerInput arap_input(const problems::TriangleMesh& mesh,
                     const std::vector<problems::Pin>& targets) {
  const std::vector<double>& u = mesh.positions;
  const auto vertices = static_cast<std::uint32_t>(mesh.vertex_count());
  PeerTerm edges{PeerTerm::Kind::arap_edge, {}, {}}, pins{PeerTerm::Kind::target, {}, {}};
  for (const auto& [i, j] : problems::directed_edges(mesh)) {
    edges.blocks.insert(edges.blocks.end(), {i, j, vertices + i});
    for (std::size_t k = 0; k < 3; ++k) edges.numbers.push_back(u[3 * i + k] - u[3 * j + k]);
  }
  for (const problems::Pin& pin : targets)
    add_target(pins, pin.vertex, problems::kPinWeight, pin.target);
  std::vector<double> x = u;
  x.resize(2 * u.size(), 0.0);
  return {std::move(x), {std::move(edges), std::move(pins)}};
}

PeerInput smooth_input(const problems::TriangleMesh& mesh, double noise) {
  std::vector<double> x = problems::noisy_positions(mesh, noise);
  PeerTerm fit{PeerTerm::Kind::target, {}, {}}, edges{PeerTerm::Kind::smoothing, {}, {}};
  for (std::uint32_t v = 0; v < mesh.vertex_count(); ++v)
    add_target(fit, v, 1, {x[3 * v], x[3 * v + 1], x[3 * v + 2]});
  for (const problems::InteriorEdge& e : problems::interior_edges(mesh))
    edges.blocks.insert(edges.blocks.end(), {e.from, e.to, e.left, e.right});
  return {std::move(x), {std::move(fit), std::move(edges)}};
}

/// Empty for the hinge energy and for stars that are not fans.
std::optional<PeerInput> developable_input(const problems::TriangleMesh& mesh,
                                           const ProblemArguments& arguments) {
  if (problems::parse_developability(arguments.energy) != problems::Developability::covariance)
    return std::nullopt;
  std::map<std::pair<std::size_t, bool>, PeerTerm> stars;  // by width, and true if closed
  for (const problems::VertexStar& star : problems::vertex_stars(mesh, problems::Stars::any)) {
    if (!star.fan) return std::nullopt;
    if (star.faces() < 3) continue;
    const std::size_t width = 1 + star.ring.size();
    PeerTerm& term =
        stars.try_emplace({width, star.closed}, PeerTerm{PeerTerm::Kind::star, {}, {}, width})
            .first->second;
    term.blocks.push_back(star.vertex);
    term.blocks.insert(term.blocks.end(), star.ring.begin(), star.ring.end());
    term.numbers.push_back(star.closed ? 1 : 0);
  }
  PeerInput input{mesh.positions, {}};
  for (auto& [key, term] : stars) input.terms.push_back(std::move(term));
  if (!arguments.edges) return input;
  PeerTerm& edges = input.terms.emplace_back(PeerTerm{PeerTerm::Kind::spring, {}, {}});
  for (const problems::EdgeLength& e : problems::edge_lengths(mesh)) {
    edges.blocks.insert(edges.blocks.end(), {e.a, e.b});
    edges.numbers.push_back(e.length);
  }
  return input;
}

void append_lower(const Eigen::MatrixXd& A, std::vector<double>& numbers) {
  for (Eigen::Index i = 0; i < A.rows(); ++i)
    for (Eigen::Index j = 0; j <= i; ++j) numbers.push_back(A(i, j));
}

/// Empty for graphs with landmarks, priors, switches, sensors or calibrations.
std::optional<PeerInput> graph_input(const PoseGraph& graph, PoseObjective objective) {
  const auto has_more = [](const PoseGraph::Edge& edge) {
    return edge.from_sensor != PoseGraph::kNone || edge.to_sensor != PoseGraph::kNone ||
           edge.calibration != PoseGraph::kNone || edge.switched_by != PoseGraph::kNone;
  };
  if (graph.measurements() != graph.edges.size() || std::ranges::any_of(graph.edges, has_more))
    return std::nullopt;
  const bool plane = graph.dimension == 2;
  const std::uint32_t blocks = plane ? 1 : 3;  // of a pose: (x, y, angle), or position, quaternion
  PeerTerm edges{plane ? PeerTerm::Kind::planar_edge : PeerTerm::Kind::spatial_edge, {}, {}};
  for (const PoseGraph::Edge& edge : graph.edges) {
    for (const std::uint32_t pose : {edge.from, edge.to}) {
      edges.blocks.push_back(blocks * pose);
      if (!plane) edges.blocks.push_back(blocks * pose + 1);
    }
    const Pose& u = edge.measured;
    edges.numbers.insert(edges.numbers.end(), u.position.begin(),
                         u.position.begin() + graph.dimension);
    if (plane) {
      edges.numbers.push_back(u.angle());
      edges.numbers.push_back(objective == PoseObjective::chordal ? 1 : 0);
    } else {
      edges.numbers.insert(edges.numbers.end(), u.rotation.begin(), u.rotation.end());
    }
    append_lower(objective_root(edge, graph.dimension, objective), edges.numbers);
  }
  PeerInput input{{}, {std::move(edges)}};
  for (const Pose& pose : graph.poses) {
    input.x.insert(input.x.end(), pose.position.begin(), pose.position.begin() + graph.dimension);
    if (plane) {
      input.x.push_back(pose.angle());
    } else {
      input.x.insert(input.x.end(), pose.rotation.begin(), pose.rotation.end());
      input.x.resize(input.x.size() + 2);  // two blocks hold four numbers
    }
  }
  for (const bool anchor : graph.anchors())
    input.constant.insert(input.constant.end(), 3 * std::size_t{blocks}, anchor ? 1 : 0);
  return input;
}

/// Empty for squares.
std::function<std::array<double, 3>(double)> loss_function(const Loss& loss) {
  if (loss.is_trivial()) return {};
  return [loss](double square) { return loss.evaluate(square); };
}

PeerInput with_loss(PeerInput input, const std::string& text) {
  for (PeerTerm& term : input.terms) term.loss = loss_function(parse_loss(text));
  return input;
}

PeerInput scene_input(const BundleScene& scene, std::span<const std::uint8_t> constant = {}) {
  const auto points = static_cast<std::uint32_t>(scene.cameras.size() / 3);  // their first block
  PeerTerm seen{PeerTerm::Kind::observation, {}, {}};
  for (const BundleScene::Observation& o : scene.observations) {
    seen.blocks.insert(seen.blocks.end(), {3 * o.camera, points + o.point});
    seen.numbers.insert(seen.numbers.end(), o.seen.begin(), o.seen.end());
  }
  std::vector<double> x = scene.cameras;
  x.insert(x.end(), scene.points.begin(), scene.points.end());
  return {std::move(x), {std::move(seen)}, {constant.begin(), constant.end()}};
}

PeerInput bal_input(const ProblemArguments& arguments) {
  const BundleAdjustment adjustment(read_bal(arguments.file), {.fixed = arguments.fixed});
  return scene_input(adjustment.scene(), adjustment.problem().constant_mask());
}

/// Appends the blocks of an array, each as blocks of three unknowns; returns the number of the
/// first.
std::uint32_t append_blocks(const Problem& problem, const Parameters& array, PeerInput& input) {
  const auto first = static_cast<std::uint32_t>(input.x.size() / 3);
  const auto width = static_cast<std::size_t>(array.width());
  std::vector<double> x(problem.parameter_count());
  problem.read_x(x);
  const std::span<const std::uint8_t> constant = problem.constant_mask();
  for (std::size_t k = 0; k < array.size(); ++k) {
    for (std::size_t d = 0; d < (width + 2) / 3 * 3; ++d) {
      const std::size_t at = array.offset() + k * width + d;
      input.x.push_back(d < width ? x[at] : 0);
      input.constant.push_back(d < width && !constant.empty() ? constant[at] : 0);
    }
  }
  return first;
}

/// Appends the priors of cameras, each to the term of its kind.
void append_priors(const ColmapProblem& colmap, const ColmapModel& model, std::uint32_t poses,
                   std::uint32_t sensors, PeerTerm& plain, PeerTerm& in_rigs) {
  for (const PositionPrior& prior : colmap.priors()) {
    const ColmapModel::Image& image = model.images[prior.image];
    const bool of_sensor = image.sensor != ColmapModel::kNoSensor;
    PeerTerm& term = of_sensor ? in_rigs : plain;
    term.blocks.push_back(poses + 2 * image.frame);
    if (of_sensor) term.blocks.push_back(sensors + 2 * image.sensor);
    term.numbers.insert(term.numbers.end(), prior.position.begin(), prior.position.end());
    const Eigen::Map<const Eigen::Matrix3d> covariance(prior.covariance.data());
    const Eigen::Matrix3d root = covariance.llt().matrixL();
    append_lower(root.inverse(), term.numbers);
  }
}

/// Empty for newer camera models.
std::optional<PeerInput> colmap_input(const ProblemArguments& arguments) {
  constexpr CameraModel kLast = CameraModel::THIN_PRISM_FISHEYE;
  using Kind = PeerTerm::Kind;
  ColmapModel read = read_photo_model(arguments);
  const ColmapOptions options = photo_model_options(arguments, read);
  const ColmapProblem colmap(std::move(read), options);
  const ColmapModel model = colmap.model();
  const Problem& problem = colmap.problem();
  PeerInput input;
  const std::uint32_t poses = append_blocks(problem, colmap.poses(), input);
  const std::uint32_t sensors =
      model.sensors.empty() ? 0 : append_blocks(problem, colmap.sensors(), input);
  std::array<std::uint32_t, kCountOf<CameraModel>> cameras{};
  for (const ColmapModel::Camera& camera : model.cameras) {
    if (camera.model > kLast) return std::nullopt;
    std::uint32_t& first = cameras[static_cast<std::size_t>(camera.model)];
    if (first == 0) first = append_blocks(problem, colmap.cameras(camera.model), input);
  }
  const std::uint32_t points = append_blocks(problem, colmap.points(), input);
  PeerTerm seen{Kind::colmap_observation, {}, {}}, in_rigs{Kind::colmap_rig_observation, {}, {}},
      priors{Kind::colmap_prior, {}, {}}, rig_priors{Kind::colmap_rig_prior, {}, {}};
  for (const ColmapModel::Observation& o : model.observations) {
    const ColmapModel::Image& image = model.images[o.image];
    const CameraModel lens = model.cameras[image.camera].model;
    const auto number = static_cast<std::size_t>(lens);
    const auto width = static_cast<std::uint32_t>((sizes(lens).all() + 2) / 3);
    const bool of_sensor = image.sensor != ColmapModel::kNoSensor;
    PeerTerm& term = of_sensor ? in_rigs : seen;
    term.blocks.push_back(poses + 2 * image.frame);
    if (of_sensor) term.blocks.push_back(sensors + 2 * image.sensor);
    term.blocks.insert(
        term.blocks.end(),
        {cameras[number] + width * colmap.camera_block(image.camera), points + o.point});
    term.numbers.insert(term.numbers.end(), {static_cast<double>(number), o.seen[0], o.seen[1]});
  }
  append_priors(colmap, model, poses, sensors, priors, rig_priors);
  for (PeerTerm* term : {&seen, &in_rigs}) term->loss = loss_function(options.loss);
  for (PeerTerm* term : {&priors, &rig_priors}) term->loss = loss_function(options.prior_loss);
  for (PeerTerm* term : {&seen, &in_rigs, &priors, &rig_priors})
    if (!term->blocks.empty()) input.terms.push_back(std::move(*term));
  return input;
}

}  // namespace

PeerInput springs_input(const problems::SpringGrid& grid) {
  PeerTerm springs{PeerTerm::Kind::spring, {}, {}}, anchors{PeerTerm::Kind::target, {}, {}};
  for (const problems::Spring& s : grid.springs) {
    if (s.b == problems::Spring::kAnchor) {
      add_target(anchors, s.a, 1, s.target);
    } else {
      springs.blocks.insert(springs.blocks.end(), {s.a, s.b});
      springs.numbers.push_back(s.rest);
    }
  }
  return {grid.x, {std::move(springs), std::move(anchors)}};
}

std::optional<PeerInput> peer_input(const ProblemArguments& arguments) {
  if (arguments.name == "springs")
    return springs_input(problems::spring_grid(arguments.width, arguments.shuffle));
  if (arguments.name == "arap") {
    const TriangleMesh mesh = read_problem_mesh(arguments).mesh;
    return arap_input(mesh, arap_pins(arguments, mesh));
  }
  if (arguments.name == "smooth")
    return smooth_input(read_problem_mesh(arguments).mesh, smooth_noise(arguments));
  if (arguments.name == "developable")
    return developable_input(read_problem_mesh(arguments).mesh, arguments);
  if (arguments.name == "bundle") return scene_input(*problems::bundle(bundle_options(arguments)));
  if (arguments.name == "bal") return with_loss(bal_input(arguments), arguments.loss);
  if (is_photo_model(arguments.name)) return colmap_input(arguments);
  if (arguments.name == "pose-graph") {
    std::optional<PeerInput> input =
        graph_input(pose_graph_at_start(arguments), parse_pose_objective(arguments.objective));
    if (!input) return std::nullopt;
    return with_loss(std::move(*input), arguments.loss);
  }
  return std::nullopt;
}

RunPeer open_ceres() {
  static const platform::SharedLibrary kLibrary(platform::executable_folder() +
                                                "/topograd_peer_ceres.so");
  return kLibrary.ok() ? reinterpret_cast<RunPeer>(kLibrary.symbol(kRunPeer)) : nullptr;
}

int peer_threads(const SolverArguments& arguments) {
  const int asked = arguments.threads.value_or(0);
  return asked > 0 ? asked : static_cast<int>(std::thread::hardware_concurrency());
}

namespace {

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

}  // namespace

PeerFunctions peer_functions(Problem& problem, int threads) {
  const auto evaluator = std::make_shared<Evaluator>(
      problem, SolverOptions{.backend = Backend::cpu, .threads = threads});
  const std::size_t n = problem.parameter_count(), rows = problem.residual_count();
  PeerFunctions functions;
  if (problem.energy_count() > 0) {
    functions.objective = [evaluator, n](const double* at, double* cost, double* gradient) {
      const std::span<const double> x(at, n);
      *cost = evaluator->cost(x);
      if (!std::isfinite(*cost) || gradient == nullptr) return std::isfinite(*cost);
      const Eigen::VectorXd g = evaluator->gradient(x);
      std::copy(g.begin(), g.end(), gradient);
      return all_finite({gradient, n});
    };
    return functions;
  }
  functions.rows = rows;
  functions.least_squares = [evaluator, n, rows](const double* at, double* r, double* J) {
    const std::span<const double> x(at, n);
    const Eigen::VectorXd values = evaluator->residuals(x);
    std::copy(values.begin(), values.end(), r);
    if (!all_finite({r, rows}) || J == nullptr) return all_finite({r, rows});
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<RowMajor>(J, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(n)) =
        evaluator->jacobian(x);
    return all_finite({J, rows * n});
  };
  return functions;
}

}  // namespace topograd::command
