// Hessians by differences of gradients, and the steps that they lead to.
#include "end_by_differences.hpp"

#include "../step_control/negative_curvature.hpp"
#include "../step_control/newton_decrement.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace topograd {
namespace {

// First difference of a coordinate as a share of its size, the growth of those that change its
// gradient by less than the share that rounding leaves alone, and the most of them.
constexpr double kFirst = 0x1p-17, kLonger = 0x1p8, kChanged = 1e-4;
constexpr int kMostLonger = 12;
// The same where nothing tells a size: at zero, without a gradient.
constexpr double kShortest = 0x1p-300, kMuchLonger = 0x1p24;
// Relative error of second derivatives by differences.
constexpr double kUnit = 0x1p-24;
// Parts of a step to try.
constexpr double kParts[] = {1, 1.0 / 4, 1.0 / 16, 1.0 / 64};

class Differences {
 public:
  Differences(const Objective& objective, std::span<const double> sizes, std::span<double> x,
              const SolverOptions& options, Summary& summary)
      : point_(objective, x, options, summary),
        least_(claimed_decrease(options, summary, summary.final_cost)),
        may_escape_(options.max_escapes > summary.num_escapes),
        step_(objective.steps()) {
    at_.unknowns = moving(objective, x);
    const auto n = static_cast<Eigen::Index>(at_.unknowns.size());
    at_.gradient = at_.squares = at_.noise = lengths_ = Eigen::VectorXd::Zero(n);
    at_.hessian = Eigen::MatrixXd::Zero(n, n);
    for (Eigen::Index k = 0; k < n; ++k) at_.gradient[k] = point_.gradient()[unknown(k)];
    for (Eigen::Index k = 0; k < n; ++k) find_column(k, sizes[unknown(k)]);
    at_.hessian = (at_.hessian + at_.hessian.transpose()).eval() / 2;
  }

  /// Second derivatives by coordinate, 0 where they are not positive.
  std::vector<double> diagonal() const {
    std::vector<double> out(step_.size());
    for (Eigen::Index k = 0; k < at_.gradient.size(); ++k)
      out[unknown(k)] = std::max(at_.hessian(k, k), 0.0);
    return out;
  }
  /// Looks at a step that gains enough, which the point can take. False if there is none.
  bool find_step() { return !at_.unknowns.empty() && (find_newton_step() || find_single_step()); }
  StepsBeside& point() { return point_; }
  /// The step found leads along negative curvature.
  bool escapes() const { return escapes_; }

 private:
  // The decrease that a step must promise, in units of the one that the solve claims to be left.
  static constexpr double kPromised = 10;

  std::uint32_t unknown(Eigen::Index k) const { return at_.unknowns[static_cast<std::size_t>(k)]; }

  /// Coordinates that are neither fixed nor held by a bound.
  std::vector<std::uint32_t> moving(const Objective& objective, std::span<const double> x) const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t k = 0; k < objective.steps(); ++k) {
      const bool fixed = is_held(objective.constant, k);
      const bool held = objective.bounded() && point_.gradient()[k] == 0 &&
                        (x[k] == objective.lower[k] || x[k] == objective.upper[k]);
      if (!fixed && !held) out.push_back(k);
    }
    return out;
  }

  void find_column(Eigen::Index k, double size) {
    const double g = at_.gradient[k];
    double length = size > 0 ? kFirst * size : g != 0 ? least_ / std::abs(g) : 0;
    const bool has_length = length > 0;
    if (!has_length) length = kShortest;
    for (int tries = 0;; ++tries, length *= has_length ? kLonger : kMuchLonger) {
      const double signed_length = g > 0 ? -length : length;
      lengths_[k] = length;
      step_[unknown(k)] = signed_length;
      const bool usable = !std::isnan(point_.look(step_, 1));
      step_[unknown(k)] = 0;
      if (!usable) return;
      const std::span<const double> next = point_.next_gradient();
      bool changed = std::abs(next[unknown(k)] - g) > kChanged * std::abs(g);
      for (Eigen::Index j = 0; j < at_.gradient.size(); ++j) {
        at_.hessian(j, k) = (next[unknown(j)] - at_.gradient[j]) / signed_length;
        changed = changed || (!has_length && at_.hessian(j, k) != 0);
      }
      if (changed || tries == kMostLonger) return;
    }
  }

  void set_step(const Eigen::VectorXd& direction) {
    std::ranges::fill(step_, 0.0);
    for (Eigen::Index k = 0; k < direction.size(); ++k) step_[unknown(k)] = direction[k];
  }

  bool gains(const Eigen::VectorXd& direction) {
    set_step(direction);
    return std::ranges::any_of(kParts,
                               [&](double part) { return point_.look(step_, part) > least_; });
  }

  bool find_newton_step() {
    if (const std::optional<NewtonDecrement> newton = NewtonDecrement::make(at_, kUnit))
      return newton->gain() > kPromised * least_ && gains(newton->step());
    if (!may_escape_) return false;
    const std::optional<NegativeCurvature> way = negative_curvature(at_, kUnit);
    if (!way) return false;
    set_step(way->direction);
    // The first step is no shorter than the differences, where the cost has no size.
    double length = std::numeric_limits<double>::infinity();
    for (Eigen::Index k = 0; k < way->direction.size(); ++k)
      if (way->direction[k] != 0)
        length = std::min(length, lengths_[k] / std::abs(way->direction[k]));
    SaddleSearch search(point_.cost(), way->curvature,
                        std::max(least_, -way->curvature * length * length / 2));
    while (search.length() != 0) search.judge(point_.cost() - point_.look(step_, search.length()));
    escapes_ = search.best() != 0 && point_.look(step_, search.best()) > least_;
    return escapes_;
  }

  bool find_single_step() {
    const auto promised = [&](Eigen::Index k) {
      const double curvature = std::abs(at_.hessian(k, k));
      return curvature > 0 ? at_.gradient[k] * at_.gradient[k] / (2 * curvature) : 0;
    };
    std::vector<Eigen::Index> some;
    for (Eigen::Index k = 0; k < at_.gradient.size(); ++k)
      if (promised(k) > kPromised * least_) some.push_back(k);
    std::ranges::sort(some, [&](Eigen::Index a, Eigen::Index b) {
      return promised(a) != promised(b) ? promised(a) > promised(b) : a < b;
    });
    return std::ranges::any_of(some, [&](Eigen::Index k) {
      Eigen::VectorXd alone = Eigen::VectorXd::Zero(at_.gradient.size());
      alone[k] = -at_.gradient[k] / std::abs(at_.hessian(k, k));
      return gains(alone);
    });
  }

  StepsBeside point_;
  double least_;
  bool may_escape_, escapes_ = false;
  std::vector<double> step_;
  QuadraticModel at_;
  Eigen::VectorXd lengths_;  // of the differences
};

}  // namespace

std::vector<double> unknown_sizes(std::span<const double> x, std::span<const double> start,
                                  const Objective& objective) {
  std::vector<double> out(objective.steps());
  if (objective.plus) return out;
  for (std::size_t k = 0; k < out.size(); ++k)
    out[k] = std::max(std::abs(x[k]), std::abs(x[k] - start[k]));
  return out;
}

bool goes_on_by_differences(const Objective& objective, std::span<const double> sizes,
                            UnknownScales& units, std::span<double> x, const SolverOptions& options,
                            Summary& summary) {
  const bool failed =
      summary.termination == Termination::FAILURE && !summary.iterations.back().step_is_nonfinite;
  const bool ended = summary.termination == Termination::CONVERGENCE || failed;
  if (!ended || ends_by_gradient(options) || objective.steps() > kMostCurved ||
      summary.num_iterations() >= options.max_iterations)
    return false;
  Differences differences(objective, sizes, x, options, summary);
  if (!differences.find_step()) return false;
  units.learn(differences.diagonal());
  summary.num_escapes += differences.escapes() ? 1 : 0;
  return differences.point().take();
}

}  // namespace topograd
