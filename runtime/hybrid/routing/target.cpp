// Reasons against a target, and what outcomes say about it.
#include "target.hpp"

#include "history.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {
namespace {

// Largest age of a reading of free memory.
constexpr double kFreeSeconds = 0.02;

}  // namespace

bool Target::usable(bool admit_software) const {
  return device_.available && (!device_.software || options_.admit_software || admit_software);
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

void Target::release(double us) {
  queued_us_ = std::max(0.0, queued_us_ - us);
  // Rounding error of additions and subtractions.
  if (queued_us_ < 1e-6) queued_us_ = 0;
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
