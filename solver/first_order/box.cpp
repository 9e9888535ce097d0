// Descent within a box: the active set.
#include "box.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

// A distance from a bound below this share of the numbers counts as none.
constexpr double kNear = 1e-10;

}  // namespace

Box::Box(const Objective& objective)
    : objective_(objective), held_(objective.bounded() ? objective.size : 0, 0) {}

void Box::look(std::span<const double> x, std::span<const double> g) {
  for (std::size_t k = 0; k < held_.size(); ++k) {
    const double to = bound(k, -g[k]);
    const double near = kNear * std::max(std::abs(x[k]), std::abs(to));
    held_[k] = g[k] != 0 && std::isfinite(to) && std::abs(x[k] - to) <= near ? 1 : 0;
  }
}

void Box::finish(std::span<const double> x, std::span<double> direction) const {
  for (std::size_t k = 0; k < held_.size(); ++k) {
    if (held_[k] == 0) continue;
    const bool low = std::abs(x[k] - objective_.lower[k]) <= std::abs(x[k] - objective_.upper[k]);
    direction[k] = (low ? objective_.lower[k] : objective_.upper[k]) - x[k];
  }
}

double Box::longest(std::span<const double> x, std::span<const double> direction) const {
  if (!bounded()) return std::numeric_limits<double>::infinity();
  double out = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (direction[k] != 0) out = std::max(out, (bound(k, direction[k]) - x[k]) / direction[k]);
  return out > 0 ? out : 1;
}

void Box::project(std::span<const double> x, std::span<double> g) const {
  for (std::size_t k = 0; bounded() && k < g.size(); ++k)
    if (x[k] == bound(k, -g[k])) g[k] = 0;
}

GradientNorms Box::norms(std::span<const double> x, std::span<const double> g) const {
  if (!bounded()) return norms_of(g);
  std::vector<double> free(g.begin(), g.end());
  project(x, free);
  return norms_of(free);
}

double Box::slope(std::span<const double> x, std::span<const double> g,
                  std::span<const double> direction) const {
  if (!bounded()) return dot(g, direction);
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (direction[k] != 0 && x[k] != bound(k, direction[k])) sum += g[k] * direction[k];
  return sum;
}

}  // namespace topograd
