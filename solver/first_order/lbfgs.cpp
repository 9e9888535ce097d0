// L-BFGS: the two-loop recursion.
#include <topograd/solver/first_order/lbfgs.hpp>

#include <topograd/solver/first_order/control.hpp>

#include <algorithm>
#include <numeric>

namespace topograd {
namespace {

// sᵀy / yᵀy at and below which a pair says nothing of the curvature.
constexpr double kLeastCurvature = 1e-14;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add(double factor, std::span<const double> v, std::span<double> to) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] += factor * v[k];
}

}  // namespace

void LbfgsDirection::compute(std::span<const double>, std::span<const double> g,
                             std::span<double> direction) {
  for (std::size_t k = 0; k < g.size(); ++k) direction[k] = -g[k];
  std::vector<double> alpha(pairs_.size());
  for (std::size_t k = pairs_.size(); k-- > 0;) {
    alpha[k] = dot(pairs_[k].s, direction) / pairs_[k].sy;
    add(-alpha[k], pairs_[k].y, direction);
  }
  if (!pairs_.empty()) {
    const double scale = pairs_.back().sy / pairs_.back().yy;
    for (double& d : direction) d *= scale;
  }
  for (std::size_t k = 0; k < pairs_.size(); ++k) {
    const double beta = dot(pairs_[k].y, direction) / pairs_[k].sy;
    add(alpha[k] - beta, pairs_[k].s, direction);
  }
}

double LbfgsDirection::first_step(std::span<const double> g) const {
  return pairs_.empty() ? std::min(1.0, 1 / norms_of(g).max) : 1;
}

void LbfgsDirection::moved(double, std::span<const double> step,
                           std::span<const double> gradient_change) {
  Pair pair{{step.begin(), step.end()}, {gradient_change.begin(), gradient_change.end()}};
  pair.sy = dot(pair.s, pair.y);
  pair.yy = dot(pair.y, pair.y);
  if (!(pair.sy > kLeastCurvature * pair.yy)) return;
  pairs_.push_back(std::move(pair));
  if (pairs_.size() > static_cast<std::size_t>(rank_)) pairs_.pop_front();
}

bool LbfgsDirection::reset() {
  const bool any = !pairs_.empty();
  pairs_.clear();
  return any;
}

void minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary) {
  LbfgsDirection direction(options.max_lbfgs_rank);
  descend(objective, direction, x, options, summary);
}

}  // namespace topograd
