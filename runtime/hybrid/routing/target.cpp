// States of a breaker, and the load and memory of a target.
#include "target.hpp"

#include "history.hpp"

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

namespace {

// Largest age of a reading of free memory.
constexpr double kFreeSeconds = 0.02;

}  // namespace

bool Target::usable(bool admit_software) const {
  return device_.available && (!device_.software() || options_.admit_software || admit_software);
}

std::optional<std::uint64_t> Target::free_bytes(double now) const {
  if (!device_.free_bytes) return std::nullopt;
  if (free_known_at_ < 0 || now - free_known_at_ > kFreeSeconds) {
    free_bytes_ = device_.free_bytes();
    free_known_at_ = now;
  }
  return free_bytes_;
}

std::optional<Reason> Target::refusal(const TaskShape& task, std::uint64_t resident, bool supported,
                                      double now) const {
  if (!usable(task.admit_software)) return Reason::no_device;
  if (!breaker_.admits(now))
    return breaker_.opened_by_rate() ? Reason::success_rate : Reason::breaker_open;
  if (!supported) return Reason::unsupported;
  const std::uint64_t bytes = task.memory();
  std::uint64_t limit = device_.memory_bytes;
  if (options_.memory_limit != 0 && (limit == 0 || options_.memory_limit < limit))
    limit = options_.memory_limit;
  if (limit != 0 && bytes > limit) return Reason::memory_limit;
  if (const auto free = free_bytes(now); free && bytes - std::min(bytes, resident) > *free)
    return Reason::memory_limit;
  for (const auto& [size, breaker] : out_of_memory_) {
    // A failure without a size says nothing about tasks that state bytes.
    const bool like = size == size_class(bytes) || (size < size_class(bytes) && size > 0);
    if (like && !breaker.admits(now)) return Reason::out_of_memory;
  }
  return std::nullopt;
}

bool Target::record(const TaskShape& task, const Outcome& outcome, double now) {
  const int bytes_class = size_class(task.memory());
  if (outcome.success) {
    breaker_.record(true, now);
    if (const auto found = out_of_memory_.find(bytes_class);
        found != out_of_memory_.end() && found->second.admits(now))
      out_of_memory_.erase(found);
    return true;
  }
  switch (outcome.error) {
    case ErrorCode::NoLoader:
    case ErrorCode::NoDriver:
    case ErrorCode::NoDevice:
    case ErrorCode::DeviceLost:
    case ErrorCode::Timeout: breaker_.trip(now); break;
    case ErrorCode::OutOfDeviceMemory: {
      Breaker& breaker = out_of_memory_.try_emplace(bytes_class, options_).first->second;
      breaker.enter(now);
      breaker.trip(now);
      breaker_.record_refusal(now);
      break;
    }
    case ErrorCode::Unsupported:
    case ErrorCode::ShaderCompile:
    case ErrorCode::LayoutMismatch: breaker_.leave(); return false;
    case ErrorCode::InvalidArgument:
    case ErrorCode::Shape:
    case ErrorCode::WrongProblem:
    case ErrorCode::StaleValue:
    case ErrorCode::EmptyProblem:
    case ErrorCode::NoParameters:
    case ErrorCode::StaleBranch:
    case ErrorCode::NonFinite:
    case ErrorCode::Parse:
    case ErrorCode::File:
    case ErrorCode::OutOfHostMemory:
    case ErrorCode::Stopped:
    case ErrorCode::Internal: breaker_.record(false, now); break;
  }
  return true;
}

void Target::reserve(double us) {
  if (!(us > 0)) return;
  queued_us_ += us;
  ++reservations_;
}

void Target::release(double us) {
  if (!(us > 0) || reservations_ == 0) return;
  // The sum that is left has rounding errors of all that were added: only the number tells 0.
  --reservations_;
  queued_us_ = reservations_ == 0 ? 0 : std::max(0.0, queued_us_ - us);
}

TargetState Target::state(double now) const {
  return {.target = device_,
          .breaker = breaker_.state(now),
          .breaker_openings = breaker_.openings(),
          .success_rate = breaker_.success_rate(),
          .outcomes = breaker_.samples(),
          .queued_us = queued_us_,
          .free_bytes = free_bytes(now)};
}

}  // namespace topograd::runtime::hybrid
