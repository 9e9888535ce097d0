// Adam, AdamW and gradient descent with momentum.
#include "adam.hpp"

#include "control.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Doubles = std::vector<double>;
using StepsAt = std::function<runtime::FirstOrderSteps*(std::span<const double> x)>;

// With a learning rate this much smaller than the first one, x no longer changes.
constexpr double kLeastRate = 1e-12;

/// Steps from the gradient's history, on the host.
class Rule {
 public:
  Rule(const SolverOptions& options, std::size_t size)
      : method_(options.method), o_(options.first_order), mean_(size), square_(size) {}

  void step(double rate, std::span<const double> x, const Doubles& g, Doubles& out) {
    ++count_;
    const double mean_bias = 1 - std::pow(o_.beta1, count_);
    const double square_bias = 1 - std::pow(o_.beta2, count_);
    // Decay acts on coordinates: not on a manifold, where a step has fewer, and not on those whose
    // gradient has always been 0, such as fixed ones.
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
  void transfer(ir::StateRecord& record) {
    record.list("mean of gradients", std::span(mean_));
    record.list("mean of squared gradients", std::span(square_));
    record.in_range("steps of the means", count_, 0, 1 << 30);
  }
  const Doubles& mean() const { return mean_; }
  const Doubles& square() const { return square_; }
  /// Steps since the history was empty.
  int count() const { return count_; }

 private:
  Method method_;
  const FirstOrderOptions& o_;
  Doubles mean_, square_;
  int count_ = 0;
};

/// Result of a step.
struct Looked {
  double cost = 0;
  GradientNorms gradient;
  double step_norm = 0;
  bool finite() const { return std::isfinite(cost) && std::isfinite(gradient.max); }
};

/// Storage of points, gradients and their means, on the host or on an engine.
class Path {
 public:
  virtual ~Path() = default;
  virtual Looked begin() = 0;
  virtual Looked try_step(double rate) = 0;
  /// Makes the trial point the point and, if `best`, the caller's x by end() at the latest.
  virtual void keep(bool best) = 0;
  virtual void forget() = 0;
  /// Saves or restores the means and the best point, after begin().
  virtual void transfer(ir::StateRecord& record) = 0;
  virtual void point(std::span<double> x) = 0;
  virtual void end() {}
  /// Replaces end() after an exception.
  virtual void rescue() {}
  /// Returns the path that continues from here, or null.
  virtual std::unique_ptr<Path> next() { return nullptr; }
};

class EnginePath final : public Path {
 public:
  /// Starts at the engine's point with the history of `rule`, which is not needed after begin().
  EnginePath(runtime::FirstOrderSteps& engine, std::span<double> x, const SolverOptions& options,
             const Rule& before)
      : engine_(engine), before_(before), best_(x), o_(options.first_order) {
    const bool sgd = options.method == Method::sgd;
    using Kind = runtime::FirstOrderRule::Kind;
    rule_ = {.kind = sgd ? Kind::momentum : Kind::adam,
             .beta1 = o_.beta1,
             .beta2 = o_.beta2,
             .epsilon = o_.epsilon,
             .momentum = o_.momentum};
    decay_ = options.method == Method::adamw ? o_.weight_decay : 0;
  }

  Looked begin() override {
    const Looked start = looked(engine_.begin_steps());
    count_ = before_.count();
    if (count_ > 0) engine_.set_means(before_.mean(), before_.square());
    return start;
  }
  Looked try_step(double rate) override {
    ++count_;
    rule_.rate = rate;
    rule_.mean_bias = 1 - std::pow(o_.beta1, count_);
    rule_.square_bias = 1 - std::pow(o_.beta2, count_);
    rule_.decay = rate * decay_;
    return looked(engine_.try_rule(rule_));
  }
  void keep(bool best) override {
    engine_.keep_trial(best);
    improved_ = improved_ || best;
  }
  void forget() override {
    engine_.forget_gradients();
    count_ = 0;
  }
  void transfer(ir::StateRecord& record) override {
    bool on_host = false;
    record.value("vectors on the host", on_host);
    if (on_host) record.refuse("vectors on the host", "is of steps on the host");
    engine_.transfer(record);
    record.in_range("steps of the means", count_, 0, 1 << 30);
    record.value("improved", improved_);
    if (record.restores()) engine_.best_point(best_);
  }
  void point(std::span<double> x) override { engine_.current_point(x); }
  void end() override {
    if (improved_) engine_.best_point(best_);
  }
  void rescue() override {
    try {
      end();  // a callback may have thrown
    } catch (...) {
      engine_.last_known_best(best_);
    }
  }

 private:
  static Looked looked(const runtime::FirstOrderReport& r) {
    return {r.cost, {r.gradient_max_norm, r.gradient_norm * r.gradient_norm}, r.step_norm};
  }

  runtime::FirstOrderSteps& engine_;
  const Rule& before_;
  std::span<double> best_;
  const FirstOrderOptions& o_;
  runtime::FirstOrderRule rule_;
  double decay_ = 0;
  int count_ = 0;
  bool improved_ = false;
};

class HostPath final : public Path {
 public:
  HostPath(const Objective& objective, std::span<double> x, const SolverOptions& options,
           const StepsAt& steps_at)
      : objective_(objective),
        options_(options),
        steps_at_(steps_at),
        best_(x),
        rule_(options, objective.steps()),
        x_(x.begin(), x.end()),
        trial_(x_),
        gradient_(objective.steps()),
        trial_gradient_(objective.steps()),
        step_(objective.steps()) {}

  Looked begin() override {
    const double cost = objective_.evaluate(x_, gradient_);
    return {.cost = cost, .gradient = norms_of(gradient_)};
  }
  Looked try_step(double rate) override {
    rule_.step(rate, x_, gradient_, step_);
    objective_.move(x_, step_, trial_);
    const double cost = objective_.evaluate(trial_, trial_gradient_);
    return {cost, norms_of(trial_gradient_), norm_of(step_)};
  }
  void keep(bool best) override {
    x_.swap(trial_);
    gradient_.swap(trial_gradient_);
    if (best) std::copy(x_.begin(), x_.end(), best_.begin());
  }
  void forget() override { rule_.forget(); }
  void transfer(ir::StateRecord& record) override {
    bool on_host = true;
    record.value("vectors on the host", on_host);
    if (!on_host) record.refuse("vectors on the host", "is of steps on a device");
    rule_.transfer(record);
    record.list("best point", best_);
  }
  void point(std::span<double> x) override { std::copy(x_.begin(), x_.end(), x.begin()); }
  std::unique_ptr<Path> next() override {
    runtime::FirstOrderSteps* const engine = steps_at_ ? steps_at_(x_) : nullptr;
    return engine ? std::make_unique<EnginePath>(*engine, best_, options_, rule_) : nullptr;
  }

 private:
  const Objective& objective_;
  const SolverOptions& options_;
  const StepsAt& steps_at_;
  std::span<double> best_;
  Rule rule_;
  Doubles x_, trial_, gradient_, trial_gradient_, step_;
};

class FirstOrder {
 public:
  FirstOrder(Path& path, const SolverOptions& options, Summary& summary, Checkpoints* checkpoints)
      : path_(&path),
        summary_(summary),
        checkpoints_(checkpoints),
        control_(options, summary),
        rate_(options.first_order.learning_rate),
        least_rate_(kLeastRate * rate_) {}

  void run(BestElsewhere* elsewhere) {
    const BestElsewhere::Scope ahead(elsewhere, [this] { path_->end(); });
    try {
      move();
      const Looked start = begin();
      cost_ = best_cost_ = start.cost;
      gradient_ = start.gradient;
      if (checkpoints_ != nullptr && checkpoints_->restores())
        control_.resume(checkpoints_->restore([this](ir::StateRecord& r) { transfer(r); }));
      control_.start(cost_, gradient_);
      save();
      while (!control_.finished()) {
        if (move()) begin();
        iterate();
        save();
      }
      path_->end();
    } catch (...) {
      path_->rescue();
      throw;
    }
    // Iterations describe the sequence of points, the summary the one that is kept.
    summary_.final_cost = best_cost_;
  }

 private:
  void transfer(ir::StateRecord& record) {
    path_->transfer(record);
    record.value("learning rate", rate_);
    record.value("best cost", best_cost_);
  }
  void save() {
    if (checkpoints_ == nullptr) return;
    checkpoints_->look(
        control_.finished(), [this](ir::StateRecord& record) { transfer(record); },
        [this](std::span<double> x) { path_->point(x); });
  }

  Looked begin() {
    const Stopwatch watch(summary_.times.evaluation_seconds);
    return path_->begin();
  }
  Looked try_step() {
    const Stopwatch watch(summary_.times.evaluation_seconds);
    return path_->try_step(rate_);
  }

  /// Returns true if another path continues; the old one lives until the new one has begun.
  bool move() {
    std::unique_ptr<Path> next = path_->next();
    if (!next) return false;
    moved_ = std::move(next);
    path_ = moved_.get();
    return true;
  }

  void iterate() {
    const Looked trial = try_step();
    IterationSummary iteration{.step_norm = trial.step_norm, .step_size = rate_, .evaluations = 1};
    if (!trial.finite()) return refuse(iteration);
    iteration.cost_change = cost_ - trial.cost;
    cost_ = trial.cost;
    gradient_ = trial.gradient;
    path_->keep(cost_ < best_cost_);
    best_cost_ = std::min(best_cost_, cost_);
    control_.accepted(iteration, cost_, gradient_, 0, Settling::never);
  }

  void refuse(IterationSummary& iteration) {
    iteration.step_is_nonfinite = true;
    path_->forget();
    rate_ /= 2;
    control_.rejected(iteration, gradient_);
    if (!control_.finished() && rate_ < least_rate_)
      control_.finish(Termination::FAILURE, "every step leads to values that are not finite");
  }

  Path* path_;
  std::unique_ptr<Path> moved_;
  Summary& summary_;
  Checkpoints* checkpoints_;
  DescentControl control_;
  double rate_, least_rate_;
  GradientNorms gradient_;
  double cost_ = 0, best_cost_ = 0;
};

}  // namespace

void minimize_first_order(const Objective& objective, std::span<double> x,
                          const SolverOptions& options, Summary& summary) {
  minimize_first_order(objective, x, options, summary, {});
}

void minimize_first_order(const Objective& objective, std::span<double> x,
                          const SolverOptions& options, Summary& summary, const StepsAt& steps_at,
                          BestElsewhere* elsewhere, Checkpoints* checkpoints) {
  HostPath path(objective, x, options, steps_at);
  FirstOrder(path, options, summary, checkpoints).run(elsewhere);
}

}  // namespace topograd
