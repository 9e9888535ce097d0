// L-BFGS: the two-loop recursion on host vectors, and from dot products of vectors on a device.
#include "lbfgs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "../../ir/machine/state_record.hpp"
#include "control.hpp"
#include "end_by_differences.hpp"

namespace topograd {
namespace {

// Positions in s_0, y_0, s_1, ...
std::size_t s_of(std::size_t pair) { return 2 * pair; }
std::size_t y_of(std::size_t pair) { return 2 * pair + 1; }

// A pair whose vectors have at most this cosine says nothing about the curvature.
constexpr double kLeastCosine = 1e-12;

void add(double factor, std::span<const double> v, std::span<double> to) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] += factor * v[k];
}

/// Vectors are on the engine, the direction is chosen here; it and its first trial are one call.
class EnginePath final : public DescentPath {
 public:
  EnginePath(runtime::DescentSteps& engine, const SolverOptions& options, PhaseTimes& times)
      : engine_(engine),
        products_(options.max_lbfgs_rank),
        rank_(options.max_lbfgs_rank),
        scale_free_(options.scale_free),
        times_(times) {}

  StartPoint begin() override {
    const Stopwatch watch(times_.evaluation_seconds);
    at_ = engine_.begin_descent(static_cast<std::size_t>(rank_));
    return {at_.cost, gradient_of(at_)};
  }

  Aim aim() override {
    const Stopwatch watch(times_.evaluation_seconds);
    Aim aim;
    do {
      aim.first =
          products_.empty() ? first_length(scale_free_, at_.cost, gradient_of(at_), at_.x_norm) : 1;
      trial_ = engine_.try_direction(products_.factors(), aim.first);
      length_ = aim.first;
      aim.slope = trial_.slope < 0 && std::isfinite(trial_.slope) ? trial_.slope : 0;
    } while (aim.slope == 0 && reset());
    return aim;
  }

  LinePoint look(double length) override {
    if (length != length_) {
      const Stopwatch watch(times_.evaluation_seconds);
      trial_ = engine_.try_length(length);
      length_ = length;
    }
    return {.step = length, .value = trial_.cost, .slope = products_.slope(trial_)};
  }

  Kept keep() override {
    engine_.keep_descent(products_.moved(length_, trial_));
    const double x_norm = at_.x_norm;
    at_ = trial_;
    return {gradient_of(at_), length_ * at_.direction_norm, x_norm};
  }

  Settling settling() const override { return Settling::window; }
  bool reset() override { return products_.reset(); }
  void transfer(ir::StateRecord& record) override {
    bool on_host = false;
    record.value("vectors on the host", on_host);
    if (on_host) record.refuse("vectors on the host", "is of steps on the host");
    engine_.transfer(record);
    products_.transfer(record);
  }
  void point(std::span<double> x) override { engine_.descent_point(x); }

 private:
  static GradientNorms gradient_of(const runtime::DescentReport& at) {
    return {at.gradient_max_norm, at.gradient_norm * at.gradient_norm};
  }

  runtime::DescentSteps& engine_;
  LbfgsProducts products_;
  int rank_;
  bool scale_free_;
  PhaseTimes& times_;
  runtime::DescentReport at_, trial_;
  double length_ = 0;
};

}  // namespace

LbfgsProducts::LbfgsProducts(int rank)
    : rank_(static_cast<std::size_t>(std::max(rank, 1))),
      products_(vectors() * vectors()),
      gradient_(vectors()),
      factors_(1 + vectors()),
      alpha_(rank_) {}

double LbfgsProducts::times_direction(std::size_t v) {
  double sum = factors_[0] * gradient_[v];
  for (const std::size_t pair : order_) {
    for (const std::size_t w : {s_of(pair), y_of(pair)}) sum += factors_[1 + w] * product(v, w);
  }
  return sum;
}

std::span<const double> LbfgsProducts::factors() {
  std::ranges::fill(factors_, 0.0);
  factors_[0] = -1;
  for (auto pair = order_.rbegin(); pair != order_.rend(); ++pair) {
    const std::size_t s = s_of(*pair), y = y_of(*pair);
    alpha_[*pair] = times_direction(s) / product(s, y);
    factors_[1 + y] -= alpha_[*pair];
  }
  if (!order_.empty()) {
    const std::size_t s = s_of(order_.back()), y = y_of(order_.back());
    const double scale = product(s, y) / product(y, y);
    for (double& factor : factors_) factor *= scale;
  }
  for (const std::size_t pair : order_) {
    const std::size_t s = s_of(pair), y = y_of(pair);
    factors_[1 + s] += alpha_[pair] - times_direction(y) / product(s, y);
  }
  return factors_;
}

double LbfgsProducts::slope(const runtime::DescentReport& trial) const {
  return trial.with_gradient[vectors()];
}

std::size_t LbfgsProducts::free_pair() {
  if (order_.size() < rank_) return order_.size();
  const std::size_t oldest = order_.front();
  order_.pop_front();
  return oldest;
}

std::optional<std::size_t> LbfgsProducts::moved(double length,
                                                const runtime::DescentReport& trial) {
  const std::size_t d = vectors(), change = d + 1;  // after the pairs
  std::copy_n(trial.with_gradient.begin(), vectors(), gradient_.begin());
  const double sy = length * trial.with_change[d], yy = trial.with_change[change];
  if (!has_curvature(sy, length * length * trial.with_direction[d], yy)) return std::nullopt;
  const std::size_t pair = free_pair(), s = s_of(pair), y = y_of(pair);
  for (const std::size_t other : order_) {
    for (const std::size_t v : {s_of(other), y_of(other)}) {
      set(s, v, length * trial.with_direction[v]);
      set(y, v, trial.with_change[v]);
    }
  }
  set(s, s, length * length * trial.with_direction[d]);
  set(s, y, sy);
  set(y, y, yy);
  gradient_[s] = length * trial.with_gradient[d];
  gradient_[y] = trial.with_gradient[change];
  order_.push_back(pair);
  return pair;
}

void LbfgsProducts::transfer(ir::StateRecord& record) {
  std::vector<std::uint64_t> order(order_.begin(), order_.end());
  record.list("order of the pairs", order);
  // The slots in use are 0 .. the number of pairs.
  const std::set<std::uint64_t> slots(order.begin(), order.end());
  if (slots.size() != order.size() || order.size() > rank_ ||
      (!slots.empty() && *slots.rbegin() >= order.size()))
    record.refuse("order of the pairs", "is none");
  order_.assign(order.begin(), order.end());
  record.list("products of the pairs", std::span(products_));
  record.list("products with the gradient", std::span(gradient_));
}

bool LbfgsProducts::reset() {
  const bool any = !order_.empty();
  order_.clear();
  return any;
}

bool has_curvature(double sy, double ss, double yy) {
  return sy > kLeastCosine * std::sqrt(ss) * std::sqrt(yy);
}

void LbfgsDirection::compute(std::span<const double> x, std::span<const double> g,
                             std::span<const std::uint8_t> held, std::span<double> direction) {
  if (units_ != nullptr) units_->look_now_and_then(x);
  for (std::size_t k = 0; k < g.size(); ++k) direction[k] = is_held(held, k) ? 0 : -g[k];
  if (std::ranges::all_of(held, [](std::uint8_t h) { return h == 0; }))
    return recur(pairs_, direction);
  std::deque<Pair> free;  // of the coordinates that move, while they have curvature
  for (const Pair& pair : pairs_) {
    Pair part = pair;
    for (std::size_t k = 0; k < held.size(); ++k)
      if (held[k] != 0) part.s[k] = part.y[k] = 0;
    part.sy = dot(part.s, part.y);
    if (is_usable(part)) free.push_back(std::move(part));
  }
  recur(free, direction);
}

bool LbfgsDirection::is_usable(const Pair& pair) const {
  const std::span<const double> by = scales();
  double ss = 0;
  for (std::size_t k = 0; k < pair.s.size(); ++k)
    ss += pair.s[k] * pair.s[k] / (by.empty() ? 1 : by[k]);
  return has_curvature(pair.sy, ss, scaled_square(pair.y, by));
}

void LbfgsDirection::recur(const std::deque<Pair>& pairs, std::span<double> direction) const {
  std::vector<double> alpha(pairs.size());
  for (std::size_t k = pairs.size(); k-- > 0;) {
    alpha[k] = dot(pairs[k].s, direction) / pairs[k].sy;
    add(-alpha[k], pairs[k].y, direction);
  }
  const std::span<const double> by = scales();
  if (!pairs.empty()) {
    const Pair& last = pairs.back();
    const double scale = last.sy / scaled_square(last.y, by);
    for (double& d : direction) d *= scale;
  }
  for (std::size_t k = 0; k < by.size(); ++k) direction[k] *= by[k];
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const double beta = dot(pairs[k].y, direction) / pairs[k].sy;
    add(alpha[k] - beta, pairs[k].s, direction);
  }
}

void LbfgsDirection::moved(double, std::span<const double> step,
                           std::span<const double> gradient_change) {
  Pair pair{{step.begin(), step.end()}, {gradient_change.begin(), gradient_change.end()}};
  pair.sy = dot(pair.s, pair.y);
  if (!is_usable(pair)) return;
  pairs_.push_back(std::move(pair));
  if (pairs_.size() > static_cast<std::size_t>(rank_)) pairs_.pop_front();
}

bool LbfgsDirection::reset() {
  // A failure at the first steps is that of scales which hold near the start alone.
  const bool by_scales = pairs_.size() <= 1 && !scales().empty();
  if (by_scales) units_->drop_scales();
  const bool any = !pairs_.empty() || by_scales;
  pairs_.clear();
  return any;
}

void LbfgsDirection::transfer(ir::StateRecord& record, std::size_t size) {
  std::uint64_t pairs = pairs_.size();
  record.in_range("pairs", pairs, 0, static_cast<std::uint64_t>(rank_));
  if (record.restores()) pairs_.assign(pairs, {});
  for (Pair& pair : pairs_) {
    for (std::vector<double>* vector : {&pair.s, &pair.y}) {
      record.list("step or change of the gradient", *vector);
      if (vector->size() != size) record.refuse("step or change", "has another length");
    }
    record.value("sy", pair.sy);
  }
}

bool minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary, const std::function<bool()>& leaves) {
  UnknownScales units;
  const std::vector<double> start(x.begin(), x.end());
  for (int k = 0;; ++k) {
    if (!minimize_lbfgs(objective, x, options, summary, leaves, nullptr, &units)) return false;
    const std::vector<double> sizes = unknown_sizes(x, start, objective);
    if (!goes_on_by_differences(objective, sizes, units, x, options, summary)) return true;
    if (k == kMostReturns) break;
  }
  summary.termination = Termination::NO_CONVERGENCE;
  summary.message += kPromisesMore;
  return true;
}

bool minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary, const std::function<bool()>& leaves, Checkpoints* checkpoints,
                    UnknownScales* units) {
  LbfgsDirection direction(options.max_lbfgs_rank, units);
  return descend(objective, direction, x, options, summary, leaves, checkpoints);
}

void minimize_lbfgs(runtime::DescentSteps& engine, std::span<double> x,
                    const SolverOptions& options, Summary& summary, Checkpoints* checkpoints) {
  EnginePath path(engine, options, summary.times);
  try {
    descend(path, options, summary, checkpoints);
  } catch (...) {
    try {
      engine.descent_point(x);  // a callback may have thrown
    } catch (...) {
      engine.last_known_descent(x);
    }
    throw;
  }
  engine.descent_point(x);
}

}  // namespace topograd
