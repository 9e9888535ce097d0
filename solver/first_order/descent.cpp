// Descent along directions with a line search.
#include <topograd/solver/first_order/descent.hpp>

#include <topograd/solver/first_order/control.hpp>
#include <topograd/solver/first_order/line_search.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace topograd {
namespace {

using Vector = std::vector<double>;

// A change of the cost below so many units of rounding of the cost at the start cannot be seen.
constexpr double kRounding = 64;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

class Descent {
 public:
  Descent(const Objective& objective, SearchDirection& direction, std::span<double> x,
          const SolverOptions& options, Summary& summary)
      : objective_(objective),
        search_(direction),
        x_(x),
        options_(options),
        summary_(summary),
        control_(options, summary),
        trial_(x.begin(), x.end()),
        gradient_(objective.steps()),
        trial_gradient_(objective.steps()),
        direction_(objective.steps()),
        step_(objective.steps()) {}

  void run() {
    cost_ = evaluate(x_, gradient_);
    control_.start(cost_, norms_of(gradient_));
    while (!control_.finished()) iterate();
  }

 private:
  double evaluate(std::span<const double> x, Vector& gradient) {
    const double begin = control_.elapsed();
    const double value = objective_.evaluate(x, gradient);
    summary_.times.evaluation_seconds += control_.elapsed() - begin;
    return value;
  }

  /// Slope along a direction that leads down; 0 if there is none.
  double find_direction() {
    const double begin = control_.elapsed();
    double slope = 0;
    do {
      search_.compute(x_, gradient_, direction_);
      slope = dot(gradient_, direction_);
    } while (!(slope < 0 && std::isfinite(slope)) && search_.reset());
    summary_.times.linear_solver_seconds += control_.elapsed() - begin;
    return slope < 0 && std::isfinite(slope) ? slope : 0;
  }

  LinePoint look(double length) {
    for (std::size_t k = 0; k < step_.size(); ++k) step_[k] = length * direction_[k];
    if (objective_.plus) {
      objective_.plus(x_, step_, trial_);
    } else {
      for (std::size_t k = 0; k < x_.size(); ++k) trial_[k] = x_[k] + step_[k];
    }
    LinePoint point{.step = length, .value = evaluate(trial_, trial_gradient_)};
    point.slope = dot(trial_gradient_, direction_);
    point.usable = std::isfinite(point.value) && std::isfinite(point.slope);
    nonfinite_ = nonfinite_ || !point.usable;
    looked_at_ = length;
    return point;
  }

  void iterate() {
    const double slope = find_direction();
    if (slope == 0) return control_.finish(Termination::FAILURE, "no direction leads down");
    nonfinite_ = false;
    const double first = search_.first_step(gradient_);
    const LinePoint start{.step = 0, .value = cost_, .slope = slope};
    const LineSearchResult result = strong_wolfe([this](double length) { return look(length); },
                                                 start, first, options_.line_search);
    IterationSummary iteration{.linear_iterations = search_.linear_iterations(),
                               .step_size = result.point.step,
                               .evaluations = result.evaluations};
    if (!result.found) return give_up(iteration, -slope * first);
    if (looked_at_ != result.point.step) look(result.point.step);
    take(iteration, result.point);
  }

  void take(IterationSummary& iteration, const LinePoint& point) {
    const double x_norm = norm_of(x_);
    iteration.cost_change = cost_ - point.value;
    iteration.step_norm = norm_of(step_);
    std::copy(trial_.begin(), trial_.end(), x_.begin());
    cost_ = point.value;
    for (std::size_t k = 0; k < gradient_.size(); ++k)
      direction_[k] = trial_gradient_[k] - gradient_[k];  // no longer needed as a direction
    search_.moved(point.step, step_, direction_);
    gradient_.swap(trial_gradient_);
    failed_before_ = false;
    control_.accepted(iteration, cost_, norms_of(gradient_), x_norm, true);
  }

  /// `promised` is the decrease of the cost along the first step, were the function linear.
  void give_up(IterationSummary& iteration, double promised) {
    iteration.step_is_nonfinite = nonfinite_;
    const double unit = options_.precision == Precision::f32 ? 0x1p-23 : 0x1p-52;
    const double resolution = std::max(options_.function_tolerance * std::abs(cost_),
                                       kRounding * unit * std::abs(summary_.initial_cost));
    const bool again = !failed_before_ && search_.reset();
    failed_before_ = true;
    control_.rejected(iteration, norms_of(gradient_));
    if (again || control_.finished()) return;
    if (promised <= resolution) {
      control_.finish(Termination::CONVERGENCE,
                      "function tolerance reached: the line search finds no decrease and the "
                      "gradient promises none above it");
    } else {
      control_.finish(Termination::FAILURE, "the line search finds no decrease");
    }
  }

  const Objective& objective_;
  SearchDirection& search_;
  std::span<double> x_;
  const SolverOptions& options_;
  Summary& summary_;
  DescentControl control_;
  Vector trial_, gradient_, trial_gradient_, direction_, step_;
  double cost_ = 0, looked_at_ = 0;
  bool nonfinite_ = false, failed_before_ = false;
};

}  // namespace

void descend(const Objective& objective, SearchDirection& direction, std::span<double> x,
             const SolverOptions& options, Summary& summary) {
  Descent(objective, direction, x, options, summary).run();
}

}  // namespace topograd
