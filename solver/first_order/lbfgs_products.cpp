// L-BFGS from dot products of vectors on a device.
#include "lbfgs_products.hpp"

#include "../../ir/machine/state_record.hpp"
#include "lbfgs.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace topograd {
namespace {

// Positions in s_0, y_0, s_1, ...
std::size_t s_of(std::size_t pair) { return 2 * pair; }
std::size_t y_of(std::size_t pair) { return 2 * pair + 1; }

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
  // The places in use are 0 .. the number of pairs.
  const std::set<std::uint64_t> places(order.begin(), order.end());
  if (places.size() != order.size() || order.size() > rank_ ||
      (!places.empty() && *places.rbegin() >= order.size()))
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

}  // namespace topograd
