// Graduated non-convexity on pose graphs with false loop closures: how far the answer is from the
// optimum of the clean graph.
//
//   false_closures [--share X] [--seed S] [--objective O] FILE.g2o...
//
// A share of all loop closures is false: each connects two random poses by the measurement of a
// random true closure.
#include "../api/formats/g2o.hpp"
#include "../api/formats/pose_graph_gnc.hpp"
#include "../api/formats/pose_graph_problem.hpp"
#include "../api/formats/pose_graph_start.hpp"
#include "../ir/error.hpp"
#include "../solver/solve.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

namespace topograd {
namespace {

bool is_odometry(const PoseGraph& graph, const PoseGraph::Edge& edge) {
  return std::abs(graph.ids[edge.from] - graph.ids[edge.to]) == 1;
}

PoseGraph with_false_closures(PoseGraph graph, double share, std::uint32_t seed) {
  std::vector<PoseGraph::Edge> closures;
  for (const PoseGraph::Edge& edge : graph.edges)
    if (!is_odometry(graph, edge)) closures.push_back(edge);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) { return random() % count; };
  const auto wanted = std::lround(share / (1 - share) * static_cast<double>(closures.size()));
  for (long k = 0; k < wanted && !closures.empty();) {
    PoseGraph::Edge edge = closures[below(closures.size())];
    edge.from = static_cast<std::uint32_t>(below(graph.size()));
    edge.to = static_cast<std::uint32_t>(below(graph.size()));
    if (edge.from == edge.to || is_odometry(graph, edge)) continue;
    edge.line = 0;
    graph.edges.push_back(edge);
    ++k;
  }
  return graph;
}

double distance(const Pose& a, const Pose& b) {
  return std::hypot(a.position[0] - b.position[0], a.position[1] - b.position[1],
                    a.position[2] - b.position[2]);
}

void measure(const std::string& path, double share, std::uint32_t seed, PoseObjective objective) {
  const PoseGraph graph = read_g2o(path);
  const SolverOptions options = PoseGraphProblem::solver_options();
  PoseGraphProblem clean(with_start(graph, PoseStart::chordal), {.objective = objective});
  solve(clean.problem(), options);
  const PoseGraph truth = clean.graph();
  const auto begin = std::chrono::steady_clock::now();
  const GncResult gnc = reject_false_edges(
      with_start(with_false_closures(graph, share, seed), PoseStart::chordal), objective);
  PoseGraphProblem robust(gnc.graph, {.objective = objective});
  solve(robust.problem(), options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const PoseGraph found = robust.graph();
  double length = 0, farthest = 0, squares = 0;
  for (const PoseGraph::Edge& edge : graph.edges)
    if (is_odometry(graph, edge)) length += distance({}, edge.measured);
  for (std::size_t k = 0; k < graph.size(); ++k) {
    const double apart = distance(truth.poses[k], found.poses[k]);
    farthest = std::max(farthest, apart);
    squares += apart * apart;
  }
  std::size_t lost = 0;
  for (const PoseGraph::Edge& edge : gnc.rejected) lost += edge.line != 0;
  const std::size_t added = found.edges.size() + gnc.rejected.size() - graph.edges.size();
  std::printf(
      "%s: %zu poses, %zu edges and %zu false ones; %d rounds, %.2f s; true edges lost %zu, false "
      "ones kept %zu; length %.5g, RMS %.3g %%, farthest %.3g %%\n",
      path.c_str(), graph.size(), graph.edges.size(), added, gnc.rounds, seconds, lost,
      added + lost - gnc.rejected.size(), length,
      100 * std::sqrt(squares / static_cast<double>(graph.size())) / length,
      100 * farthest / length);
}

void run(int count, char** arguments) {
  double share = 0.3;
  std::uint32_t seed = 1;
  PoseObjective objective = PoseObjective::chordal;
  for (int k = 1; k < count; ++k) {
    const std::string word = arguments[k];
    if (word.starts_with("--") && k + 1 < count) {
      const std::string value = arguments[++k];
      if (word == "--share") share = std::stod(value);
      if (word == "--seed") seed = static_cast<std::uint32_t>(std::stoul(value));
      if (word == "--objective") objective = parse_pose_objective(value);
    } else {
      measure(word, share, seed, objective);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace topograd

int main(int count, char** arguments) {
  try {
    topograd::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
