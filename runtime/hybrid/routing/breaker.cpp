// State transitions of the circuit breaker.
#include "breaker.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::hybrid {

Breaker::Breaker(const HybridOptions& options)
    : window_(options.success_window),
      needed_(std::min(options.success_samples, options.success_window)),
      min_rate_(options.min_success_rate),
      first_back_off_(options.back_off_seconds),
      max_back_off_(std::max(options.back_off_seconds, options.max_back_off_seconds)),
      back_off_(options.back_off_seconds) {}

BreakerState Breaker::state(double now) const {
  if (!open_) return BreakerState::closed;
  return now < until_ ? BreakerState::open : BreakerState::half_open;
}

bool Breaker::admits(double now) const {
  if (!open_) return true;
  return now >= until_ && !probing_;
}

void Breaker::enter(double now) {
  if (state(now) == BreakerState::half_open) probing_ = true;
}

double Breaker::success_rate() const {
  if (outcomes_.empty()) return 1;
  return static_cast<double>(successes_) / static_cast<double>(outcomes_.size());
}

bool Breaker::below_rate() const {
  return outcomes_.size() >= needed_ && success_rate() < min_rate_;
}

void Breaker::count(bool success) {
  if (outcomes_.size() < window_) {
    outcomes_.push_back(success);
  } else {
    successes_ -= outcomes_[next_] ? 1 : 0;
    outcomes_[next_] = success;
    next_ = (next_ + 1) % window_;
  }
  successes_ += success ? 1 : 0;
}

void Breaker::record(bool success, double now) {
  // Tasks that were in flight when it opened say nothing about the present device.
  if (open_ && !probing_) return;
  const bool probe = std::exchange(probing_, false);
  if (probe && success) close();
  count(success);
  if (probe && !success) return open(now);
  if (!below_rate()) return;
  by_rate_ = true;
  open(now);
}

void Breaker::record_refusal(double now) {
  if (open_ && !probing_) return;
  probing_ = false;
  count(false);
  if (open_ || !below_rate()) return;
  by_rate_ = true;
  open(now);
}

void Breaker::trip(double now) {
  // Several tasks see one loss.
  if (open_ && !probing_) return;
  probing_ = false;
  count(false);
  by_rate_ = below_rate();
  open(now);
}

void Breaker::close() {
  open_ = false;
  back_off_ = first_back_off_;
  if (!by_rate_) return;
  outcomes_.clear();
  next_ = successes_ = 0;
}

void Breaker::open(double now) {
  if (open_) back_off_ = std::min(2 * back_off_, max_back_off_);
  open_ = true;
  until_ = now + back_off_;
  ++openings_;
}

}  // namespace topograd::runtime::hybrid
