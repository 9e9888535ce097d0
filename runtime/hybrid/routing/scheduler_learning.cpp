// Learning from tasks that ran, and access to learned data.
#include "scheduler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topograd::runtime::hybrid {

void Scheduler::record(const TaskShape& task, const Decision& decision, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  release(decision);
  if (outcome.success && decision.reason != Reason::forced) {
    total_us_ += outcome.times.work();
    const Prediction& other = decision.target == kCpu ? decision.on_device : decision.on_cpu;
    if (decision.reason == Reason::explored)
      explored_us_ += std::max(0.0, outcome.times.work() - other.terms.work());
  }
  learn(task, decision.target, outcome);
}

void Scheduler::record(const TaskShape& task, std::size_t target, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  learn(task, target, outcome);
}

void Scheduler::record_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes,
                                 double us) {
  const std::lock_guard lock(mutex_);
  targets_.at(target).transfers.record_read_back(sent, bytes, us, options_);
}

/// Updates the target's breaker and limits from an outcome.
void Scheduler::judge(const TaskShape& task, std::size_t target, const Outcome& outcome) {
  Target& t = targets_[target];
  const double now = clock_();
  const int bytes_class = size_class(task.memory());
  if (outcome.success) {
    t.breaker.record(true, now);
    if (const auto found = t.out_of_memory.find(bytes_class);
        found != t.out_of_memory.end() && found->second.admits(now))
      t.out_of_memory.erase(found);
    return;
  }
  switch (outcome.error) {
    case ErrorCode::NoLoader:
    case ErrorCode::NoDriver:
    case ErrorCode::NoDevice:
    case ErrorCode::DeviceLost:
    case ErrorCode::Timeout: t.breaker.trip(now); break;
    case ErrorCode::OutOfDeviceMemory: {
      Breaker& breaker = t.out_of_memory.try_emplace(bytes_class, options_).first->second;
      breaker.enter(now);
      breaker.trip(now);
      t.breaker.record_refusal(now);
      break;
    }
    case ErrorCode::Unsupported:
    case ErrorCode::ShaderCompile:
    case ErrorCode::LayoutMismatch:
      kernels_.make(task.kernel, task.operation).refused |= std::uint64_t{1} << target;
      t.breaker.leave();
      break;
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
    case ErrorCode::Internal: t.breaker.record(false, now); break;
  }
}

void Scheduler::learn_kernel(const TaskShape& task, std::size_t target, double us, bool settled) {
  Target& t = targets_[target];
  KernelTimes& kernel = kernels_.make(task.kernel, task.operation);
  if (kernel.targets.size() <= target) kernel.targets.resize(target + 1);
  History& history = kernel.targets[target];
  const History::Recorded recorded = history.record(task.size, us, options_, settled);
  // Updates the training row when the median changes much: at samples 1, 2, 4, ..., and on drift.
  const bool told = recorded.verdict == History::Verdict::normal &&
                    std::has_single_bit(history.samples(size_class(task.size)));
  if (told || recorded.verdict == History::Verdict::drift) {
    t.training.keep({task.kernel, std::string(task.operation), task.size, task.features,
                     history.at(task.size).us});
  }
  if (recorded.residual == 0) return;
  t.load.add(recorded.residual, recorded.expected_us, task.kernel.low, clock_());
  const DriftWatch::Change change = t.watch.add(recorded.residual, recorded.expected_us,
                                                task.kernel.low, std::log(options_.outlier_factor));
  if (change.log_factor == 0) return;
  ++t.drifts;
  t.load = {};  // from now on it is usual
  kernels_.shift(target, change);
}

void Scheduler::learn(const TaskShape& task, std::size_t target, const Outcome& outcome) {
  judge(task, target, outcome);
  if (!outcome.success || outcome.cold || !task.teaches) return;
  Target& t = targets_[target];
  const Terms& times = outcome.times;
  ++outcomes_learned_;
  learn_kernel(task, target, times.kernel + (task.queued ? times.submit : 0), outcome.settled);
  t.transfers.record(task, outcome, options_);
  for (std::size_t k = target == kCpu ? 1 : target;
       k < (target == kCpu ? targets_.size() : target + 1); ++k)
    move_threshold(task, *kernels_.find(task.kernel), k);
}

/// Moves the threshold for new kernels of this operation towards the size where both sides are
/// equal.
void Scheduler::move_threshold(const TaskShape& task, const KernelTimes& kernel,
                               std::size_t device) {
  const Prediction cpu = predicted(task, &kernel, kCpu);
  const Prediction other = predicted(task, &kernel, device);
  if (!cpu.measured || !other.measured || !usable(device)) return;
  const double speed_up = cpu.terms.work() / other.terms.work();
  const double threshold = threshold_of(task.operation, task.first_threshold);
  const auto size = static_cast<double>(task.size);
  const auto least = static_cast<double>(minimum_batch(options_, task.operation));
  double moved = threshold;
  if (speed_up * options_.margin < 1 && size >= threshold)
    moved = std::min(threshold * options_.step, size + 1);
  if (speed_up > options_.margin && size < threshold)
    moved = std::max(least, threshold / options_.step);
  if (moved == threshold) return;
  const auto found = thresholds_.find(task.operation);
  if (found != thresholds_.end()) {
    found->second = moved;
  } else if (thresholds_.size() < options_.max_kernels) {
    thresholds_.emplace(task.operation, moved);
  }
}

Prediction Scheduler::predict(const TaskShape& task, std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return predicted(task, kernels_.find(task.kernel), target);
}

double Scheduler::speed_up(const TaskShape& task) const {
  const std::lock_guard lock(mutex_);
  const KernelTimes* kernel = kernels_.find(task.kernel);
  const double cpu = predicted(task, kernel, kCpu).terms.work();
  double best = 0;
  for (std::size_t k = 1; k < targets_.size(); ++k) {
    const Prediction p = predicted(task, kernel, k);
    if (p.terms.kernel > 0 && (best == 0 || p.terms.work() < best)) best = p.terms.work();
  }
  return best > 0 ? cpu / best : 0;
}

double Scheduler::success_rate(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return targets_.at(target).breaker.success_rate();
}

std::uint64_t Scheduler::samples(const TaskShape& task, std::size_t target) const {
  const std::lock_guard lock(mutex_);
  const KernelTimes* kernel = kernels_.find(task.kernel);
  const History* const history = kernel ? kernel->on(target) : nullptr;
  return history ? history->samples(size_class(task.size)) : 0;
}

std::uint64_t Scheduler::outcomes_learned() const {
  const std::lock_guard lock(mutex_);
  return outcomes_learned_;
}

double Scheduler::threshold(std::string_view operation, std::uint64_t first) const {
  const std::lock_guard lock(mutex_);
  return threshold_of(operation, first);
}

std::vector<TargetState> Scheduler::targets() const {
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  std::vector<TargetState> out;
  for (const Target& t : targets_) {
    out.push_back({.target = t.device,
                   .breaker = t.breaker.state(now),
                   .breaker_openings = t.breaker.openings(),
                   .success_rate = t.breaker.success_rate(),
                   .outcomes = t.breaker.samples(),
                   .queued_us = t.queued_us,
                   .drifts = t.drifts,
                   .guess_error = t.training.guess().error_factor(),
                   .load = t.load.factor(now),
                   .free_bytes = free_bytes(t, now)});
  }
  return out;
}

Knowledge Scheduler::knowledge() const {
  const std::lock_guard lock(mutex_);
  Knowledge out;
  for (const auto& [hash, kernel] : kernels_.all()) {
    Knowledge::Kernel& one =
        out.kernels.emplace_back(Knowledge::Kernel{hash, kernel.operation, {}, kernel.used});
    for (std::size_t k = 0; k < kernel.targets.size(); ++k) {
      auto rows = kernel.targets[k].rows();
      if (!rows.empty()) one.targets[targets_[k].device.name] = std::move(rows);
    }
  }
  std::ranges::sort(out.kernels, {}, &Knowledge::Kernel::hash);
  for (const Target& t : targets_) {
    out.transfers[t.device.name] = t.transfers.rows();
    out.training[t.device.name] = t.training.rows();
  }
  out.thresholds.insert(thresholds_.begin(), thresholds_.end());
  return out;
}

void Scheduler::merge(const Knowledge& knowledge) {
  const std::lock_guard lock(mutex_);
  for (const Knowledge::Kernel& from : knowledge.kernels) {
    if (!kernels_.find(from.hash) && kernels_.room() == 0) continue;
    KernelTimes& kernel = kernels_.make(from.hash, from.operation);
    kernel.targets.resize(std::max(kernel.targets.size(), targets_.size()));
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      const auto rows = from.targets.find(targets_[k].device.name);
      if (rows != from.targets.end()) kernel.targets[k].merge(rows->second);
    }
  }
  for (Target& t : targets_) {
    if (const auto found = knowledge.transfers.find(t.device.name);
        found != knowledge.transfers.end())
      t.transfers.merge(found->second);
    // Only once: a later merge for a new device brings the same rows.
    const auto training = knowledge.training.find(t.device.name);
    if (training == knowledge.training.end() || !t.training.rows().empty()) continue;
    for (const TrainingRow& row : training->second) t.training.keep(row);
  }
  for (const auto& [operation, value] : knowledge.thresholds)
    thresholds_.try_emplace(operation, value);
}

}  // namespace topograd::runtime::hybrid
