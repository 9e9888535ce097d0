// Graduated non-convexity for pose graphs.
#include "pose_graph_gnc.hpp"

#include "../../ir/error.hpp"
#include "pose_graph_start.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

namespace topograd {
namespace {

/// Quantiles of χ² with 3 and 6 degrees of freedom.
struct Quantiles {
  double half, most;  ///< 50 % and 99 %
};
constexpr Quantiles kOf3 = {2.365974, 11.344867}, kOf6 = {5.348121, 16.811894};
constexpr double kMargin = 16;        // of a threshold that follows the median
constexpr double kLeastScale = 1e-6;  // of the files' covariances: rounding is no noise
constexpr double kTolerance = 1e-4;

/// Weight of an edge that adds `error` where the loss is turned by μ. Source: ibid., eq. 14.
double weight_of(double error, double threshold, double mu) {
  if (error >= (mu + 1) / mu * threshold) return 0;
  if (error <= mu / (mu + 1) * threshold) return 1;
  return std::sqrt(threshold * mu * (mu + 1) / error) - mu;
}

/// Small weights do not count: where the first errors are huge, all weights are small.
bool is_settled(double weight) { return weight == 0 || weight >= 1 - kTolerance; }

Quantiles quantiles(const PoseGraph& graph) { return graph.dimension == 2 ? kOf3 : kOf6; }

/// The threshold where covariances in files are wrong by one factor: more than half of the edges
/// are true, and their median tells the factor.
double threshold_of(std::vector<double> errors, const Quantiles& chi2) {
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::ranges::nth_element(errors, middle);
  return chi2.most * std::max(kMargin * *middle / chi2.half, kLeastScale);
}

/// Edges that may be false: all but the odometry.
std::vector<std::size_t> closures(const PoseGraph& graph) {
  std::vector<std::size_t> out;
  for (std::size_t k = 0; k < graph.edges.size(); ++k)
    if (std::abs(graph.ids[graph.edges[k].from] - graph.ids[graph.edges[k].to]) != 1)
      out.push_back(k);
  return out;
}

/// The edges with a weight, which is that of their squares.
PoseGraph weighted(const PoseGraph& graph, const std::vector<double>& weights) {
  PoseGraph out = graph;
  out.edges.clear();
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] == 0) continue;
    out.edges.push_back(graph.edges[k]);
    for (double& number : out.edges.back().information) number *= weights[k];
  }
  return out;
}

}  // namespace

GncResult reject_false_edges(PoseGraph graph, PoseObjective objective, const GncOptions& options) {
  if (!graph.sightings.empty())
    throw Error(ErrorCode::InvalidArgument,
                "graduated non-convexity: expected edges between poses alone, got " +
                    std::to_string(graph.sightings.size()) +
                    " sightings of landmarks, which it cannot reject; a robust loss resists wrong "
                    "ones");
  if (!graph.switches.empty())
    throw Error(ErrorCode::InvalidArgument,
                "graduated non-convexity: expected edges between poses alone, got " +
                    std::to_string(graph.switches.size()) +
                    " switches, which turn false edges off without it");
  const std::vector<std::size_t> doubted = closures(graph);
  GncResult out;
  out.threshold = options.threshold.value_or(quantiles(graph).most);
  if (!(out.threshold > 0 && options.growth > 1 && options.max_rounds >= 1))
    throw Error(ErrorCode::InvalidArgument,
                "graduated non-convexity: expected a threshold > 0, a growth > 1 and a round");
  std::vector<double> weights(graph.edges.size(), 1.0);
  for (const std::size_t k : doubted) weights[k] = 0;
  double mu = 0;
  bool settled = doubted.empty();
  for (; out.rounds < options.max_rounds && !settled; ++out.rounds) {
    graph.poses = with_start(weighted(graph, weights), PoseStart::chordal).poses;
    const std::vector<double> errors = pose_graph_errors(graph, objective).edges;
    std::vector<double> doubtful;
    for (const std::size_t k : doubted) doubtful.push_back(errors[k]);
    if (!options.threshold)
      out.threshold = std::min(out.threshold, threshold_of(doubtful, quantiles(graph)));
    if (out.rounds == 0) {
      const double largest = *std::ranges::max_element(doubtful);
      if (2 * largest <= out.threshold) {  // nothing is doubtful
        weights.assign(weights.size(), 1.0);
        break;
      }
      mu = out.threshold / (2 * largest - out.threshold);
    }
    settled = true;
    for (std::size_t k = 0; k < doubted.size(); ++k) {
      double& weight = weights[doubted[k]];
      weight = weight_of(doubtful[k], out.threshold, mu);
      settled = settled && is_settled(weight);
    }
    mu *= options.growth;
  }
  for (double& weight : weights) weight = weight < 0.5 ? 0 : 1;
  for (std::size_t k = 0; k < weights.size(); ++k)
    if (weights[k] == 0) out.rejected.push_back(graph.edges[k]);
  out.graph = weighted(graph, weights);
  return out;
}

}  // namespace topograd
