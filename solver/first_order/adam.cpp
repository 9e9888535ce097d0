// Adam, AdamW and gradient descent with momentum.
#include <topograd/solver/first_order/adam.hpp>

#include <topograd/solver/first_order/control.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace topograd {
namespace {

using Vector = std::vector<double>;

// A learning rate this much smaller than the first one moves nothing any more.
constexpr double kLeastRate = 1e-12;

/// The step from the gradient's history.
class Rule {
 public:
  Rule(const SolverOptions& options, std::size_t size)
      : method_(options.method), o_(options.first_order), mean_(size), square_(size) {}

  void step(double rate, std::span<const double> x, const Vector& g, Vector& out) {
    ++count_;
    const double mean_bias = 1 - std::pow(o_.beta1, count_);
    const double square_bias = 1 - std::pow(o_.beta2, count_);
    // Decay acts on coordinates: not on a manifold, where a step has fewer, and not on those whose
    // gradient has always been 0, as constant ones have.
    const bool decays = method_ == Method::adamw && x.size() == g.size();
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (method_ == Method::sgd) {
        mean_[k] = o_.momentum * mean_[k] + g[k];
        out[k] = -rate * mean_[k];
        continue;
      }
      mean_[k] = o_.beta1 * mean_[k] + (1 - o_.beta1) * g[k];
      square_[k] = o_.beta2 * square_[k] + (1 - o_.beta2) * g[k] * g[k];
      out[k] = -rate * (mean_[k] / mean_bias) / (std::sqrt(square_[k] / square_bias) + o_.epsilon);
      if (decays && square_[k] != 0) out[k] -= rate * o_.weight_decay * x[k];
    }
  }
  void forget() {
    std::fill(mean_.begin(), mean_.end(), 0.0);
    std::fill(square_.begin(), square_.end(), 0.0);
    count_ = 0;
  }

 private:
  Method method_;
  const FirstOrderOptions& o_;
  Vector mean_, square_;
  int count_ = 0;
};

class FirstOrder {
 public:
  FirstOrder(const Objective& objective, std::span<double> x, const SolverOptions& options,
             Summary& summary)
      : objective_(objective),
        best_(x),
        summary_(summary),
        control_(options, summary),
        rule_(options, objective.steps()),
        rate_(options.first_order.learning_rate),
        least_rate_(kLeastRate * rate_),
        x_(x.begin(), x.end()),
        trial_(x_),
        gradient_(objective.steps()),
        trial_gradient_(objective.steps()),
        step_(objective.steps()) {}

  void run() {
    cost_ = best_cost_ = evaluate(x_, gradient_);
    control_.start(cost_, gradient_);
    while (!control_.finished()) iterate();
    // Iterations tell of the points as they came; the summary of the one that is kept.
    summary_.final_cost = best_cost_;
  }

 private:
  double evaluate(const Vector& x, Vector& gradient) {
    const double begin = control_.elapsed();
    const double value = objective_.evaluate(x, gradient);
    summary_.times.evaluation_seconds += control_.elapsed() - begin;
    return value;
  }

  void iterate() {
    rule_.step(rate_, x_, gradient_, step_);
    if (objective_.plus) {
      objective_.plus(x_, step_, trial_);
    } else {
      for (std::size_t k = 0; k < x_.size(); ++k) trial_[k] = x_[k] + step_[k];
    }
    const double value = evaluate(trial_, trial_gradient_);
    IterationSummary iteration{.step_norm = norm_of(step_), .step_size = rate_, .evaluations = 1};
    if (!std::isfinite(value) || !std::isfinite(norms_of(trial_gradient_).max))
      return refuse(iteration);
    const double x_norm = norm_of(x_);
    iteration.cost_change = cost_ - value;
    x_.swap(trial_);
    gradient_.swap(trial_gradient_);
    cost_ = value;
    if (cost_ < best_cost_) {
      best_cost_ = cost_;
      std::copy(x_.begin(), x_.end(), best_.begin());
    }
    control_.accepted(iteration, cost_, gradient_, x_norm, false);
  }

  void refuse(IterationSummary& iteration) {
    iteration.step_is_nonfinite = true;
    rule_.forget();
    rate_ /= 2;
    control_.rejected(iteration, gradient_);
    if (!control_.finished() && rate_ < least_rate_)
      control_.finish(Termination::FAILURE, "every step leads to values that are not finite");
  }

  const Objective& objective_;
  std::span<double> best_;
  Summary& summary_;
  DescentControl control_;
  Rule rule_;
  double rate_, least_rate_;
  Vector x_, trial_, gradient_, trial_gradient_, step_;
  double cost_ = 0, best_cost_ = 0;
};

}  // namespace

void minimize_first_order(const Objective& objective, std::span<double> x,
                          const SolverOptions& options, Summary& summary) {
  FirstOrder(objective, x, options, summary).run();
}

}  // namespace topograd
