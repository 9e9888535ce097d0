// The rules in order, hysteresis and exploration.
#include "scheduler.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {
namespace {

// The confidence of transfers counts only if they take more than this share of the time.
constexpr double kTransferShare = 0.2;
// Less certain guesses decide nothing.
constexpr double kLeastConfidence = 0.2;
// Largest age of a reading of free memory.
constexpr double kFreeSeconds = 0.02;
// A side that is certainly this many times slower is explored less often by the same factor.
constexpr double kMuchSlower = 2;
constexpr std::uint64_t kMoreRarely = 4;

/// Upper bound of the CPU time of all tasks; 0 if one is not known, or has a deadline.
double most_cpu_us(std::span<const TaskShape> tasks) {
  double most = 0;
  for (const TaskShape& task : tasks) {
    if (task.most_cpu_us <= 0 || task.deadline_us > 0) return 0;
    most += task.most_cpu_us;
  }
  return most;
}

}  // namespace

Scheduler::Scheduler(HybridOptions options, Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)), kernels_(options_.max_kernels) {
  check(options_);
  targets_.emplace_back(DeviceTarget{.name = "cpu"}, options_);
}

std::size_t Scheduler::add_device(DeviceTarget device) {
  const std::lock_guard lock(mutex_);
  if (targets_.size() >= 64)
    throw Error(ErrorCode::InvalidArgument, "add_device: expected at most 63 devices");
  targets_.emplace_back(std::move(device), options_);
  return targets_.size() - 1;
}

void Scheduler::set_available(std::size_t target, bool available) {
  const std::lock_guard lock(mutex_);
  targets_.at(target).device.available = available;
}

bool Scheduler::admits(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return target < targets_.size() && usable(target);
}

bool Scheduler::usable(std::size_t target, bool admit_software) const {
  const DeviceTarget& device = targets_[target].device;
  return device.available && (!device.software || options_.admit_software || admit_software);
}

std::optional<std::uint64_t> Scheduler::free_bytes(const Target& target, double now) const {
  if (!target.device.free_bytes) return std::nullopt;
  if (target.free_known_at < 0 || now - target.free_known_at > kFreeSeconds) {
    target.free_bytes = target.device.free_bytes();
    target.free_known_at = now;
  }
  return target.free_bytes;
}

std::optional<Reason> Scheduler::refusal(const TaskShape& task, const KernelTimes* kernel,
                                         std::size_t target, double now) const {
  const Target& t = targets_[target];
  if (!usable(target, task.admit_software)) return Reason::no_device;
  if (!t.breaker.admits(now))
    return t.breaker.opened_by_rate() ? Reason::success_rate : Reason::breaker_open;
  const std::uint64_t refused = kernel ? kernel->refused : 0;
  if (((task.targets & ~refused) >> target & 1) == 0) return Reason::unsupported;
  const std::uint64_t bytes = task.memory();
  std::uint64_t limit = t.device.memory_bytes;
  if (options_.memory_limit != 0 && (limit == 0 || options_.memory_limit < limit))
    limit = options_.memory_limit;
  if (limit != 0 && bytes > limit) return Reason::memory_limit;
  if (const auto free = free_bytes(t, now);
      free && bytes - std::min(bytes, task.resident_on(target)) > *free)
    return Reason::memory_limit;
  for (const auto& [size, breaker] : t.out_of_memory) {
    // A failure without a size says nothing about tasks that state bytes.
    const bool like = size == size_class(bytes) || (size < size_class(bytes) && size > 0);
    if (like && !breaker.admits(now)) return Reason::out_of_memory;
  }
  return std::nullopt;
}

Prediction Scheduler::predicted(const TaskShape& task, const KernelTimes* kernel,
                                std::size_t target, std::uint64_t sent) const {
  const Target& t = targets_[target];
  Prediction p;
  Estimate work;
  if (const History* history = kernel ? kernel->on(target) : nullptr) work = history->at(task.size);
  p.measured = work.known;
  if (!work.known) {
    const Estimate guess = t.training.guess().at(task.operation, task.size, task.features);
    if (guess.confidence >= kLeastConfidence) {
      work = guess;
      p.guessed = true;
    }
  }
  p.terms.kernel = t.load.loaded() ? t.load.slowed(work.us, clock_()) : work.us;
  p.terms.queue = t.queued_us;
  p.confidence = work.confidence;
  Estimate upload, read_back;
  if (target == kCpu) {
    if (task.bytes_away == 0 || task.away_on == kCpu) return p;
    const Target& from = targets_[task.away_on];
    p.terms.queue += from.queued_us;  // time waiting for the target
    read_back = from.transfers.predict_fetch(task);
  } else {
    const TransferTimes::Predicted moved = t.transfers.predict(task, task.upload_to(target), sent);
    upload = moved.upload;
    read_back = moved.read_back;
    p.terms.submit = moved.submit_us;
  }
  p.terms.upload = upload.us;
  p.terms.read_back = read_back.us;
  for (const Estimate& transfer : {upload, read_back}) {
    if (transfer.known && transfer.us > kTransferShare * p.terms.work())
      p.confidence = std::min(p.confidence, transfer.confidence);
  }
  return p;
}

/// Tasks wait once for the target's queue; the confidence is that of the parts that take long.
Prediction Scheduler::predicted(std::span<const TaskShape> tasks, std::size_t target) const {
  if (tasks.size() == 1) return predicted(tasks[0], kernels_.find(tasks[0].kernel), target);
  Prediction sum{.measured = true};
  double sure = 0;
  bool known = true;
  std::uint64_t sent = 0;
  for (const TaskShape& task : tasks) {
    const Prediction p = predicted(task, kernels_.find(task.kernel), target, sent);
    sent = task.bytes_out > 0 ? 0 : sent + task.upload_to(target);
    sum.terms.queue = std::max(sum.terms.queue, p.terms.queue);
    sum.terms.upload += p.terms.upload;
    sum.terms.submit += p.terms.submit;
    sum.terms.kernel += p.terms.kernel;
    sum.terms.read_back += p.terms.read_back;
    sum.measured = sum.measured && p.measured;
    known = known && (p.measured || p.guessed);
    sure += p.confidence * p.terms.work();
  }
  sum.guessed = known && !sum.measured;
  if (sum.terms.work() > 0) sum.confidence = sure / sum.terms.work();
  return sum;
}

Reason Scheduler::find_device(std::span<const TaskShape> tasks, Decision& decision) const {
  const double now = clock_();
  Reason why = Reason::no_device;
  for (std::size_t k = 1; k < targets_.size(); ++k) {
    std::optional<Reason> refused;
    for (const TaskShape& task : tasks) {
      if (!refused) refused = refusal(task, kernels_.find(task.kernel), k, now);
    }
    if (refused) {
      // A reason from an existing device is more informative than the absence of another one.
      if (*refused != Reason::no_device) why = *refused;
      continue;
    }
    const Prediction p = predicted(tasks, k);
    const auto known = [](const Prediction& x) { return x.measured || x.guessed; };
    const Prediction& best = decision.on_device;
    const bool better = known(p) && (!known(best) || p.terms.total() < best.terms.total());
    if (decision.device == kCpu || better) {
      decision.device = k;
      decision.on_device = p;
    }
  }
  return why;
}

void Scheduler::weigh(std::span<const TaskShape> tasks, Decision& decision) {
  SideFacts facts{.on_cpu = decision.on_cpu, .on_device = decision.on_device};
  const bool measured = facts.on_cpu.measured && facts.on_device.measured;
  Side* const last = measured ? &kernels_.last_side(tasks) : nullptr;
  if (last) {
    facts.last = *last;
  } else {
    // The minimum of a task that has its own was checked before.
    facts.below_threshold = std::ranges::all_of(tasks, [&](const TaskShape& task) {
      return !task.minimum &&
             static_cast<double>(task.size) < threshold_of(task.operation, task.first_threshold);
    });
    facts.most_cpu_us = most_cpu_us(tasks);
  }
  const SideChoice choice = choose_side(facts, options_);
  if (last) *last = choice.side;
  decision.target = choice.side == Side::device ? decision.device : kCpu;
  decision.reason = choice.reason;
  decision.speed_up = choice.speed_up;
  decision.needed = choice.needed;
  decision.confidence = choice.confidence;
}

bool Scheduler::explores(const TaskShape& task, const Decision& decision) {
  if (options_.explore_every == 0 || task.deadline_us > 0) return false;
  const bool on_cpu = decision.target == kCpu;
  const Prediction& here = on_cpu ? decision.on_cpu : decision.on_device;
  const Prediction& there = on_cpu ? decision.on_device : decision.on_cpu;
  const double now = here.terms.work();
  const bool sure = here.measured && there.measured &&
                    decision.confidence >= options_.sure_confidence &&
                    there.terms.work() > kMuchSlower * now;
  if (++since_exploring_ < options_.explore_every * (sure ? kMoreRarely : 1)) return false;
  const bool known = there.measured || there.guessed;
  const double extra = known ? std::max(0.0, there.terms.work() - now) : kUnknownFactor * now;
  if (explored_us_ + extra > options_.explore_share * total_us_) return false;
  since_exploring_ = 0;
  return true;
}

/// Chooses by the rules, the model and exploration; overrides apply to all tasks.
Decision Scheduler::choose(std::span<const TaskShape> tasks) {
  const TaskShape& first = tasks.front();
  for (const TaskShape& task : tasks) kernels_.use(task.kernel);
  Decision decision;
  decision.on_cpu = predicted(tasks, kCpu);
  const Side forced = forced_side(first, options_);
  const bool few = std::ranges::all_of(tasks, [&](const TaskShape& task) {
    return task.size < task.minimum.value_or(minimum_batch(options_, task.operation));
  });
  if (forced == Side::cpu) {
    decision.reason = Reason::forced;
  } else if (forced == Side::none && few) {
    decision.reason = Reason::below_minimum;
  } else {
    decision.reason = find_device(tasks, decision);
    if (decision.device != kCpu && forced == Side::device) {
      decision.target = decision.device;
      decision.reason = Reason::forced;
    } else if (decision.device != kCpu && (first.targets & 1) == 0) {
      decision.target = decision.device;
      decision.reason = Reason::unsupported;
    } else if (decision.device != kCpu) {
      weigh(tasks, decision);
      if (explores(first, decision)) {
        decision.target = decision.target == kCpu ? decision.device : kCpu;
        decision.reason = Reason::explored;
      }
    }
  }
  return decision;
}

/// Adds the task's load to the target.
void Scheduler::reserve(Decision& decision) {
  Target& target = targets_[decision.target];
  if (decision.target != kCpu) target.breaker.enter(clock_());
  decision.reserved_us =
      (decision.target == kCpu ? decision.on_cpu : decision.on_device).terms.work();
  target.queued_us += decision.reserved_us;
}

Decision Scheduler::decide(const TaskShape& task) {
  const std::lock_guard lock(mutex_);
  Decision decision = choose({&task, 1});
  reserve(decision);
  return decision;
}

Decision Scheduler::place(std::span<const TaskShape> tasks) {
  const std::lock_guard lock(mutex_);
  return choose(tasks);
}

Decision Scheduler::follow(const TaskShape& task, const Decision& placed) {
  const std::lock_guard lock(mutex_);
  const std::size_t target = placed.target;
  Decision decision{.target = target, .reason = placed.reason};
  kernels_.use(task.kernel);
  const KernelTimes* const kernel = kernels_.find(task.kernel);
  decision.on_cpu = predicted(task, kernel, kCpu);
  for (std::size_t k = target == kCpu ? 1 : target; k < targets_.size(); ++k) {
    if (target == kCpu && !usable(k, task.admit_software)) continue;
    decision.device = k;
    decision.on_device = predicted(task, kernel, k);
    break;
  }
  reserve(decision);
  return decision;
}

void Scheduler::release(const Decision& decision) {
  double& queued = targets_[decision.target].queued_us;
  queued = std::max(0.0, queued - decision.reserved_us);
  // Rounding error of additions and subtractions.
  if (queued < 1e-6) queued = 0;
}

void Scheduler::cancel(const Decision& decision) {
  const std::lock_guard lock(mutex_);
  release(decision);
  targets_[decision.target].breaker.leave();
}

double Scheduler::threshold_of(std::string_view operation, std::uint64_t first) const {
  const auto found = thresholds_.find(operation);
  if (found != thresholds_.end()) return found->second;
  return static_cast<double>(std::max(first, minimum_batch(options_, operation)));
}

}  // namespace topograd::runtime::hybrid
