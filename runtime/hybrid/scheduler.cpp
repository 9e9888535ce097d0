// The rules in their order, hysteresis and exploration.
#include <topograd/runtime/hybrid/scheduler.hpp>

#include <algorithm>

namespace topograd::runtime::hybrid {
namespace {

// Of the whole time that transfers must be for their confidence to count.
constexpr double kTransferShare = 0.2;
// Guesses less sure than this decide nothing.
constexpr double kLeastConfidence = 0.2;
// What the side that nobody has measured is taken to cost, when trying it is considered.
constexpr double kUnknownFactor = 10;

}  // namespace

Scheduler::Scheduler(HybridOptions options, Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)) {
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

std::optional<Reason> Scheduler::refusal(const TaskShape& task, const Kernel* kernel,
                                         std::size_t target, double now) const {
  const Target& t = targets_[target];
  if (!usable(target, task.admit_software)) return Reason::no_device;
  if (!t.breaker.admits(now))
    return t.breaker.opened_by_rate() ? Reason::success_rate : Reason::breaker_open;
  const std::uint64_t refused = kernel ? kernel->refused : 0;
  if (((task.targets & ~refused) >> target & 1) == 0) return Reason::unsupported;
  const std::uint64_t bytes =
      task.bytes_held != 0 ? task.bytes_held : task.bytes_in + task.bytes_out;
  std::uint64_t limit = t.device.memory_bytes;
  if (options_.memory_limit != 0 && (limit == 0 || options_.memory_limit < limit))
    limit = options_.memory_limit;
  if (limit != 0 && bytes > limit) return Reason::memory_limit;
  for (const auto& [size, breaker] : t.out_of_memory) {
    // What failed without stating bytes says nothing about those that do.
    const bool like = size == size_class(bytes) || (size < size_class(bytes) && size > 0);
    if (like && !breaker.admits(now)) return Reason::out_of_memory;
  }
  return std::nullopt;
}

Prediction Scheduler::predicted(const TaskShape& task, const Kernel* kernel,
                                std::size_t target) const {
  const Target& t = targets_[target];
  Prediction p;
  Estimate work;
  if (kernel && target < kernel->targets.size()) work = kernel->targets[target].at(task.size);
  p.measured = work.known;
  if (!work.known) {
    const Estimate guess = t.guess.at(task.size, task.features);
    if (guess.confidence >= kLeastConfidence) {
      work = guess;
      p.guessed = true;
    }
  }
  p.terms.kernel = work.us;
  p.terms.queue = t.queued_us;
  p.confidence = work.confidence;
  if (target == kCpu) return p;
  const std::uint64_t there = target < task.resident.size() ? task.resident[target] : 0;
  const std::uint64_t up = task.bytes_in - std::min(task.bytes_in, there);
  const Estimate upload = up > 0 ? t.upload.at(up) : Estimate{};
  const Estimate read_back = task.bytes_out > 0 ? t.read_back.at(task.bytes_out) : Estimate{};
  p.terms.upload = upload.us;
  p.terms.read_back = read_back.us;
  p.terms.submit = t.submit.at(1).us;
  for (const Estimate& transfer : {upload, read_back}) {
    if (transfer.known && transfer.us > kTransferShare * p.terms.work())
      p.confidence = std::min(p.confidence, transfer.confidence);
  }
  return p;
}

Reason Scheduler::find_device(const TaskShape& task, const Kernel* kernel,
                              Decision& decision) const {
  const double now = clock_();
  Reason why = Reason::no_device;
  for (std::size_t k = 1; k < targets_.size(); ++k) {
    if (const std::optional<Reason> refused = refusal(task, kernel, k, now)) {
      // What stops a device that is there says more than that another is not.
      if (*refused != Reason::no_device) why = *refused;
      continue;
    }
    const Prediction p = predicted(task, kernel, k);
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

void Scheduler::weigh_measured(const TaskShape& task, Kernel& kernel, Decision& decision) const {
  Side& side = kernel.sides[static_cast<std::size_t>(size_class(task.size))];
  const bool sure = decision.confidence >= options_.sure_confidence;
  decision.needed = sure ? options_.speed_up_sure : options_.speed_up_unsure;
  // Whatever the confidence: that it falls a little is no reason to leave.
  if (side == Side::device) decision.needed = options_.speed_up_sure / options_.margin;
  const bool faster = decision.speed_up >= decision.needed;
  side = faster ? Side::device : Side::cpu;
  decision.target = faster ? decision.device : kCpu;
  decision.reason = faster ? Reason::faster : Reason::slower;
}

void Scheduler::weigh(const TaskShape& task, Kernel* kernel, Decision& decision) const {
  const Prediction& cpu = decision.on_cpu;
  const Prediction& device = decision.on_device;
  if (cpu.terms.total() > 0 && device.terms.total() > 0)
    decision.speed_up = cpu.terms.total() / device.terms.total();
  decision.confidence = std::min(cpu.confidence, device.confidence);
  if (cpu.measured && device.measured) return weigh_measured(task, *kernel, decision);
  const auto known = [](const Prediction& p) { return p.measured || p.guessed; };
  if (known(cpu) && known(device)) {
    decision.needed = options_.speed_up_unsure;
    decision.reason = Reason::guessed;
    decision.target = decision.speed_up >= decision.needed ? decision.device : kCpu;
    return;
  }
  // A task with a minimum of its own has been asked about that already.
  const bool small = !task.minimum && static_cast<double>(task.size) < threshold_of(task.operation);
  decision.reason = small ? Reason::below_threshold : Reason::unmeasured;
  decision.target = small ? kCpu : decision.device;
}

bool Scheduler::explores(const TaskShape& task, const Decision& decision) {
  if (options_.explore_every == 0 || task.deadline_us > 0) return false;
  if (++since_exploring_ < options_.explore_every) return false;
  const bool on_cpu = decision.target == kCpu;
  const Prediction& here = on_cpu ? decision.on_cpu : decision.on_device;
  const Prediction& there = on_cpu ? decision.on_device : decision.on_cpu;
  const double now = here.terms.work();
  const bool known = there.measured || there.guessed;
  const double extra = known ? std::max(0.0, there.terms.work() - now) : kUnknownFactor * now;
  if (explored_us_ + extra > options_.explore_share * total_us_) return false;
  since_exploring_ = 0;
  return true;
}

Decision Scheduler::decide(const TaskShape& task) {
  const std::lock_guard lock(mutex_);
  Kernel* kernel = find(task.kernel);
  if (kernel) kernel->used = ++tick_;
  Decision decision;
  decision.on_cpu = predicted(task, kernel, kCpu);
  const bool forced_cpu =
      task.where == Override::cpu || (task.where == Override::none && options_.force == Force::cpu);
  const bool forced_device = task.where == Override::device ||
                             (task.where == Override::none && options_.force == Force::device);
  if (forced_cpu) {
    decision.reason = Reason::forced;
  } else if (!forced_device &&
             task.size < task.minimum.value_or(minimum_batch(options_, task.operation))) {
    decision.reason = Reason::below_minimum;
  } else {
    decision.reason = find_device(task, kernel, decision);
    if (decision.device != kCpu && forced_device) {
      decision.target = decision.device;
      decision.reason = Reason::forced;
    } else if (decision.device != kCpu && (task.targets & 1) == 0) {
      decision.target = decision.device;
      decision.reason = Reason::unsupported;
    } else if (decision.device != kCpu) {
      weigh(task, kernel, decision);
      if (explores(task, decision)) {
        decision.target = decision.target == kCpu ? decision.device : kCpu;
        decision.reason = Reason::explored;
      }
    }
  }
  Target& target = targets_[decision.target];
  if (decision.target != kCpu) target.breaker.enter(clock_());
  decision.reserved_us =
      (decision.target == kCpu ? decision.on_cpu : decision.on_device).terms.work();
  target.queued_us += decision.reserved_us;
  return decision;
}

void Scheduler::release(const Decision& decision) {
  double& queued = targets_[decision.target].queued_us;
  queued = std::max(0.0, queued - decision.reserved_us);
  // What adding and subtracting leaves of nothing.
  if (queued < 1e-6) queued = 0;
}

void Scheduler::cancel(const Decision& decision) {
  const std::lock_guard lock(mutex_);
  release(decision);
  targets_[decision.target].breaker.leave();
}

double Scheduler::threshold_of(std::string_view operation) const {
  const auto found = thresholds_.find(operation);
  if (found != thresholds_.end()) return found->second;
  return static_cast<double>(minimum_batch(options_, operation));
}

}  // namespace topograd::runtime::hybrid
