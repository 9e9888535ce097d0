// The active set of a box, the loop of L-BFGS and Newton's method, and the escape from saddles.
#include "descent.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../../ir/checking/random_program.hpp"
#include "../../runtime/profile.hpp"
#include "../step_control/line_search.hpp"
#include "control.hpp"

namespace topograd {
namespace {

// A distance from a bound below this share of the numbers counts as none.
constexpr double kNear = 1e-10;

using Doubles = std::vector<double>;

// Changes of the cost below this many units of rounding say nothing about a step.
constexpr double kHiddenUnits = 4;
// The first trial may promise this many times the cost, here or at the start.
constexpr double kMostPromised = 10;

class HostPath final : public DescentPath {
 public:
  HostPath(const Objective& objective, SearchDirection& direction, std::span<double> x,
           bool scale_free, PhaseTimes& times, const std::function<bool()>& leaves)
      : scale_free_(scale_free),
        objective_(objective),
        search_(direction),
        x_(x),
        times_(times),
        leaves_(leaves),
        box_(objective),
        trial_(x.begin(), x.end()),
        gradient_(objective.steps()),
        trial_gradient_(objective.steps()),
        direction_(objective.steps()),
        step_(objective.steps()) {}

  StartPoint begin() override {
    cost_ = evaluate(x_, gradient_);
    return {cost_, box_.norms(x_, gradient_)};
  }

  Aim aim() override {
    const Stopwatch watch(times_.linear_solver_seconds);
    double slope = 0;
    box_.look(x_, gradient_);
    do {
      const runtime::TimedPass timed(runtime::TimedWork::cpu, "direction");
      search_.compute(x_, gradient_, box_.held(), direction_);
      box_.finish(x_, direction_);
      slope = box_.slope(x_, gradient_, direction_);
    } while (!leads_down(slope) && search_.reset());
    const double first = search_.has_model() ? 1 : first_without_model();
    return {leads_down(slope) ? slope : 0, std::min(first, box_.longest(x_, direction_))};
  }
  Settling settling() const override { return search_.settling(); }
  void tighten() override { search_.tighten(); }

  LinePoint look(double length) override {
    for (std::size_t k = 0; k < step_.size(); ++k) step_[k] = length * direction_[k];
    objective_.move(x_, step_, trial_);
    length_ = length;
    trial_cost_ = evaluate(trial_, trial_gradient_);
    return {.step = length,
            .value = trial_cost_,
            .slope = box_.slope(trial_, trial_gradient_, direction_)};
  }

  Kept keep() override {
    for (std::size_t k = 0; box_.bounded() && k < step_.size(); ++k) step_[k] = trial_[k] - x_[k];
    const Kept kept{box_.norms(trial_, trial_gradient_), norm_of(step_), norm_of(x_)};
    std::copy(trial_.begin(), trial_.end(), x_.begin());
    for (std::size_t k = 0; k < gradient_.size(); ++k)
      direction_[k] = trial_gradient_[k] - gradient_[k];  // no longer needed as a direction
    search_.moved(length_, step_, direction_);
    gradient_.swap(trial_gradient_);
    cost_ = trial_cost_;
    return kept;
  }

  bool reset() override { return search_.reset(); }
  void transfer(ir::StateRecord& record) override {
    bool on_host = true;
    record.value("vectors on the host", on_host);
    if (!on_host) record.refuse("vectors on the host", "is of steps on a device");
    search_.transfer(record, objective_.steps());
  }
  void point(std::span<double> x) override { std::copy(x_.begin(), x_.end(), x.begin()); }
  int linear_iterations() const override { return search_.linear_iterations(); }
  bool leaves() override { return leaves_ && leaves_(); }

 private:
  /// In the norms in which the coordinates are alike.
  double first_without_model() const {
    const std::span<const double> scales = search_.scales();
    if (scales.empty())
      return first_length(scale_free_, cost_, box_.norms(x_, gradient_), norm_of(x_));
    Doubles g(gradient_), x(x_.begin(), x_.end());
    box_.project(x_, g);
    for (std::size_t k = 0; k < g.size(); ++k) {
      g[k] *= std::sqrt(scales[k]);
      x[k] /= std::sqrt(scales[k]);
    }
    return std::min(1.0, first_length(scale_free_, cost_, norms_of(g), norm_of(x)));
  }

  static bool leads_down(double slope) { return slope < 0 && std::isfinite(slope); }

  double evaluate(std::span<const double> x, Doubles& gradient) {
    const Stopwatch watch(times_.evaluation_seconds);
    return objective_.evaluate(x, gradient);
  }

  bool scale_free_;
  const Objective& objective_;
  SearchDirection& search_;
  std::span<double> x_;
  PhaseTimes& times_;
  const std::function<bool()>& leaves_;
  Box box_;
  Doubles trial_, gradient_, trial_gradient_, direction_, step_;
  double length_ = 0, cost_ = 0, trial_cost_ = 0;
};

class Descent {
 public:
  Descent(DescentPath& path, const SolverOptions& options, Summary& summary,
          Checkpoints* checkpoints)
      : path_(path),
        options_(options),
        summary_(summary),
        checkpoints_(checkpoints),
        control_(options, summary) {}

  bool run() {
    const DescentPath::StartPoint start = path_.begin();
    cost_ = start.cost;
    gradient_ = start.gradient;
    if (checkpoints_ != nullptr && checkpoints_->restores())
      control_.resume(checkpoints_->restore([this](ir::StateRecord& r) { transfer(r); }));
    control_.start(cost_, gradient_);
    save();
    while (!control_.finished()) {
      if (path_.leaves()) return false;
      iterate();
      save();
    }
    return true;
  }

 private:
  void transfer(ir::StateRecord& record) {
    path_.transfer(record);
    record.value("line search failed before", failed_before_);
    control_.transfer(record);
  }
  void save() {
    if (checkpoints_ == nullptr) return;
    checkpoints_->look(
        control_.finished(), [this](ir::StateRecord& record) { transfer(record); },
        [this](std::span<double> x) { path_.point(x); });
  }

  LinePoint look(double length) {
    LinePoint point = path_.look(length);
    point.usable = std::isfinite(point.value) && std::isfinite(point.slope);
    nonfinite_ = nonfinite_ || !point.usable;
    looked_at_ = length;
    if (point.usable && point.slope >= 0 && length > 0) beyond_ = std::min(beyond_, length);
    return point;
  }

  void iterate() {
    auto [slope, first] = path_.aim();
    if (control_.settles(-slope * first / 2)) return;
    if (slope == 0) return fail("no direction leads down");
    // A model almost without curvature makes steps of any length.
    const double most = kMostPromised * largest_cost();
    if (options_.scale_free && most > 0 && -slope * first > most) first = most / -slope;
    nonfinite_ = false;
    beyond_ = std::numeric_limits<double>::infinity();
    const LinePoint start{.step = 0, .value = cost_, .slope = slope};
    const LineSearchResult result =
        strong_wolfe([this](double length) { return look(length); }, start, first,
                     options_.line_search, hidden_change());
    IterationSummary iteration{.linear_iterations = path_.linear_iterations(),
                               .step_size = result.point.step,
                               .evaluations = result.evaluations};
    if (!result.found) return give_up(iteration, -slope);
    if (looked_at_ != result.point.step) look(result.point.step);
    take(iteration, result.point);
  }

  /// Changes of the cost that rounding may make: its terms may be larger than their sum.
  double hidden_change() const { return kHiddenUnits * cost_unit(options_) * largest_cost(); }
  double largest_cost() const { return std::max(std::abs(cost_), std::abs(recent_cost(summary_))); }

  void take(IterationSummary& iteration, const LinePoint& point) {
    const DescentPath::Kept kept = path_.keep();
    iteration.cost_change = cost_ - point.value;
    iteration.step_norm = kept.step_norm;
    cost_ = point.value;
    gradient_ = kept.gradient;
    failed_before_ = false;
    if (control_.accepted(iteration, cost_, gradient_, kept.x_norm, path_.settling()))
      path_.tighten();
  }

  /// `steepness` is −slope: the minimum along the line lies before the shortest trial from which
  /// the cost rises, so that it is at most steepness × its length below.
  void give_up(IterationSummary& iteration, double steepness) {
    const double promised = steepness * (std::isfinite(beyond_) ? beyond_ : looked_at_);
    iteration.step_is_nonfinite = nonfinite_;
    const double resolution = std::max(cost_resolution(options_, summary_, cost_),
                                       options_.function_tolerance * std::abs(cost_));
    const bool again = !failed_before_ && path_.reset();
    failed_before_ = true;
    control_.rejected(iteration, gradient_);
    if (again || control_.finished()) return;
    if (promised <= resolution) {
      control_.finish(Termination::CONVERGENCE,
                      "function tolerance reached: the line search finds no decrease and the "
                      "gradient promises none above it");
    } else {
      fail("the line search finds no decrease");
    }
  }

  void fail(const char* message) {
    control_.stuck(gradient_);
    if (!control_.finished()) control_.finish(Termination::FAILURE, message);
  }

  DescentPath& path_;
  const SolverOptions& options_;
  Summary& summary_;
  Checkpoints* checkpoints_;
  DescentControl control_;
  GradientNorms gradient_;
  double cost_ = 0, looked_at_ = 0;
  double beyond_ = 0;  // least length of a line search where the cost rises
  bool nonfinite_ = false, failed_before_ = false;
};

// Norms of columns within this factor are alike.
constexpr double kAlike = 100;

constexpr double kDistance = 1e-3;  // times the root mean square of x
constexpr std::uint64_t kSeed = 1;
constexpr double kUnusable = std::numeric_limits<double>::quiet_NaN();

bool may_escape(const SolverOptions& options, const Summary& summary) {
  return summary.termination == Termination::CONVERGENCE &&
         summary.num_escapes < options.max_escapes &&
         summary.num_iterations() < options.max_iterations &&
         options.domain != DomainPolicy::strict;
}

/// Random numbers in [-length, length).
std::vector<double> direction_of(std::size_t size, double length, int escapes) {
  ir::Random random(kSeed + static_cast<std::uint64_t>(escapes));
  std::vector<double> out(size);
  for (double& v : out) v = length * random.between(-1, 1);
  return out;
}

struct Side {
  std::vector<double> x;
  double cost = 0;
  GradientNorms gradient;
};

Side look(const Objective& objective, std::span<const double> x, std::span<const double> step) {
  Side side{{x.begin(), x.end()}};
  objective.move(x, step, side.x);
  std::vector<double> gradient(objective.steps());
  side.cost = objective.evaluate(side.x, gradient);
  side.gradient = norms_of(gradient);
  if (!std::isfinite(side.cost) || !std::isfinite(side.gradient.max)) side.cost = kUnusable;
  return side;
}

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
  const std::span<const double> units = objective_.gradient_units;
  if (!bounded() && units.empty()) return norms_of(g);
  std::vector<double> free(g.begin(), g.end());
  project(x, free);
  GradientNorms out = norms_of(free);
  for (std::size_t k = 0; k < units.size(); ++k)
    out.in_units = std::max(out.in_units, std::abs(free[k]) / units[k]);
  return out;
}

double Box::slope(std::span<const double> x, std::span<const double> g,
                  std::span<const double> direction) const {
  if (!bounded()) return dot(g, direction);
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (direction[k] != 0 && x[k] != bound(k, direction[k])) sum += g[k] * direction[k];
  return sum;
}

void UnknownScales::learn(std::span<const double> squares) {
  squares_.resize(squares.size(), 0.0);
  for (std::size_t k = 0; k < squares.size(); ++k)
    if (std::isfinite(squares[k])) squares_[k] = std::max(squares_[k], squares[k]);
  find_scales();
}

void UnknownScales::find_scales() {
  double least = std::numeric_limits<double>::infinity(), largest = 0;
  for (const double square : squares_) {
    if (!(square > 0)) continue;
    least = std::min(least, square);
    largest = std::max(largest, square);
  }
  scales_.clear();
  if (dropped_ || !(std::sqrt(largest) > kAlike * std::sqrt(least))) return;
  for (const double square : squares_) scales_.push_back(1 / (square > 0 ? square : largest));
}

void UnknownScales::drop_scales() {
  dropped_ = true;
  scales_.clear();
}

StepsBeside::StepsBeside(const Objective& objective, std::span<double> x,
                         const SolverOptions& options, Summary& summary)
    : objective_(objective),
      x_(x),
      options_(options),
      summary_(summary),
      gradient_(objective.steps()),
      trial_(x.size()) {
  cost_ = objective_.evaluate(x_, gradient_);
  Box(objective_).project(x_, gradient_);
}

double StepsBeside::look(std::span<const double> step, double length) {
  part_.assign(step.begin(), step.end());
  for (double& d : part_) d *= length;
  length_ = length;
  objective_.move(x_, part_, trial_);
  next_.resize(gradient_.size());
  there_ = objective_.evaluate(trial_, next_);
  ++evaluations_;
  const bool usable = std::isfinite(norms_of(next_).max) && std::isfinite(there_);
  return usable ? cost_ - there_ : std::numeric_limits<double>::quiet_NaN();
}

bool StepsBeside::take() {
  const GradientNorms norms = norms_of(next_);
  const double change = cost_ - there_;
  std::ranges::copy(trial_, x_.begin());
  cost_ = there_;
  std::swap(gradient_, next_);
  Box(objective_).project(x_, gradient_);
  return record_step_beside({.cost = cost_,
                             .cost_change = change,
                             .step_norm = norm_of(part_),
                             .step_size = length_,
                             .evaluations = std::exchange(evaluations_, 0)},
                            norms, options_, summary_);
}

bool descend(DescentPath& path, const SolverOptions& options, Summary& summary,
             Checkpoints* checkpoints) {
  return Descent(path, options, summary, checkpoints).run();
}

bool descend(const Objective& objective, SearchDirection& direction, std::span<double> x,
             const SolverOptions& options, Summary& summary, const std::function<bool()>& leaves,
             Checkpoints* checkpoints) {
  HostPath path(objective, direction, x, options.scale_free, summary.times, leaves);
  return descend(path, options, summary, checkpoints);
}

bool escape(const Objective& objective, std::span<double> x, const SolverOptions& options,
            Summary& summary) {
  if (!may_escape(options, summary)) return false;
  const double cost = summary.final_cost, norm = norm_of(x);
  const double length =
      kDistance * (norm > 0 ? norm / std::sqrt(static_cast<double>(x.size())) : 1.0);
  std::vector<double> step = direction_of(objective.steps(), length, summary.num_escapes);
  for (std::size_t k = 0; k < objective.constant.size(); ++k)
    if (objective.constant[k] != 0) step[k] = 0;
  const Side ahead = look(objective, x, step);
  for (double& s : step) s = -s;
  const Side behind = look(objective, x, step);
  const double fall = 2 * cost - ahead.cost - behind.cost;  // NaN if a side is unusable
  if (!(fall > 2 * cost_resolution(options, summary, cost))) return false;

  const Side& better = ahead.cost < behind.cost ? ahead : behind;
  std::copy(better.x.begin(), better.x.end(), x.begin());
  ++summary.num_escapes;
  return record_step_beside({.cost = better.cost,
                             .cost_change = cost - better.cost,
                             .step_norm = norm_of(step),
                             .evaluations = 2},
                            better.gradient, options, summary);
}

}  // namespace topograd
