// Decides where tasks run, records their outcomes, and explains decisions.
#include "scheduler.hpp"

#include "../../../ir/machine/formatted.hpp"
#include "decision.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::runtime::hybrid {
namespace {

std::string line(const char* format, auto... values) {
  return platform::formatted(format, values...);
}

std::string prediction(std::string_view target, const Prediction& p) {
  const std::string head = line("  %-20.20s", std::string(target).c_str());
  if (!p.known() && p.terms.kernel == 0) return head + "  nothing known\n";
  const char* how = p.measured ? "measured" : (p.guessed ? "guessed" : "first run alone");
  return head + line(
                    "%12.1f µs = queue %.1f + upload %.1f + submit %.1f + kernel %.1f + "
                    "read-back %.1f  (%s, confidence %.2f)\n",
                    p.terms.total(), p.terms.queue, p.terms.upload, p.terms.submit, p.terms.kernel,
                    p.terms.read_back, how, p.confidence);
}

}  // namespace

std::string explain(const Decision& decision, std::string_view device) {
  std::string text = std::string(decision.target == kCpu ? "cpu" : device) + " (" +
                     std::string(name(decision.reason)) + ")";
  if (decision.needed > 0)
    text += line(": speed-up %.2f of the device, %.2f needed at confidence %.2f", decision.speed_up,
                 decision.needed, decision.confidence);
  else if (decision.speed_up > 0)
    text += line(": speed-up %.2f of the device", decision.speed_up);
  text += "\n" + prediction("cpu", decision.on_cpu);
  if (decision.device != kCpu) text += prediction(device, decision.on_device);
  return text;
}

namespace {

/// Outcomes that wait for priors.
constexpr std::size_t kMostWaiting = 64;

/// Upper bound of the CPU time of all tasks; 0 if one is not known, or has a deadline.
double most_cpu_us(std::span<const TaskShape> tasks) {
  double most = 0;
  for (const TaskShape& task : tasks) {
    if (task.most_cpu_us <= 0 || task.deadline_us > 0) return 0;
    most += task.most_cpu_us;
  }
  return most;
}

/// A device that takes part of a task.
struct Load {
  double queue_us = 0;
  double us = 0;       ///< for all items
  bool tried = false;  ///< it has no measurements, and gets a part to have some
};

/// Shares with which all end at nearly the same time.
std::vector<double> shares_of(std::span<const Load> loads) {
  constexpr int kParcels = 64;
  std::vector<int> taken(loads.size(), 0);
  int left = kParcels;
  for (std::size_t k = 0; k < loads.size(); ++k) {
    if (!loads[k].tried) continue;
    ++taken[k];
    --left;
  }
  const auto end_with_one_more = [&](std::size_t k) {
    return loads[k].queue_us + loads[k].us * (taken[k] + 1) / kParcels;
  };
  for (; left > 0; --left) {
    std::size_t first = 0;
    for (std::size_t k = 1; k < loads.size(); ++k)
      if (end_with_one_more(k) < end_with_one_more(first)) first = k;
    ++taken[first];
  }
  std::vector<double> shares;
  for (const int parcels : taken) shares.push_back(static_cast<double>(parcels) / kParcels);
  return shares;
}

}  // namespace

Scheduler::Scheduler(HybridOptions options, Clock clock)
    : options_(std::move(options)),
      clock_(std::move(clock)),
      measurements_(options_, clock_),
      exploration_(options_) {
  check(options_);
  add({{.name = "cpu", .kind = "cpu"}, {}});
}

void Scheduler::add(DeviceTarget device) {
  measurements_.add_target(device.name);
  targets_.emplace_back(std::move(device), options_);
}

std::size_t Scheduler::add_device(DeviceFacts facts, FreeBytes free_bytes) {
  const std::lock_guard lock(mutex_);
  if (targets_.size() >= 64)
    throw Error(ErrorCode::InvalidArgument, "add_device: expected at most 63 devices");
  load();
  add({std::move(facts), std::move(free_bytes)});
  return targets_.size() - 1;
}

void Scheduler::set_available(std::size_t target, bool available) {
  const std::lock_guard lock(mutex_);
  targets_.at(target).set_available(available);
}

bool Scheduler::admits(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return target < targets_.size() && targets_[target].usable();
}

bool Scheduler::has_devices() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(targets_.begin() + 1, targets_.end(),
                     [](const Target& one) { return one.usable(true); });
}

std::optional<Reason> Scheduler::refusal(const TaskShape& task, std::size_t target,
                                         double now) const {
  const bool supported =
      (task.targets >> target & 1) != 0 && measurements_.runs_on(task.kernel, target);
  return targets_[target].refusal(task, task.resident_on(target), supported, now);
}

/// Tasks wait once for the target's queue, and for that of a target whose data they read first.
Prediction Scheduler::predicted(std::span<const TaskShape> tasks, std::size_t target) const {
  Prediction p = measurements_.predict(tasks, target);
  for (const TaskShape& task : tasks) {
    double queue = targets_[target].queued_us();
    if (target == kCpu && task.bytes_away != 0 && task.away_on != kCpu)
      queue += targets_[task.away_on].queued_us();
    p.terms.queue = std::max(p.terms.queue, queue);
  }
  return p;
}

Reason Scheduler::find_device(std::span<const TaskShape> tasks, Decision& decision) {
  const double now = targets_.size() > 1 ? clock_() : 0;
  Reason why = Reason::no_device;
  candidates_.clear();
  for (std::size_t k = 1; k < targets_.size(); ++k) {
    std::optional<Reason> refused;
    for (const TaskShape& task : tasks) {
      if (!refused) refused = refusal(task, k, now);
    }
    if (refused) {
      // A reason from an existing device is more informative than the absence of another one.
      if (*refused != Reason::no_device) why = *refused;
      continue;
    }
    const Prediction& p = candidates_.emplace_back(Candidate{k, predicted(tasks, k)}).prediction;
    const Prediction& best = decision.on_device;
    const bool better =
        p.known() == best.known() ? p.terms.total() < best.terms.total() : p.known();
    if (decision.device == kCpu || better) {
      decision.device = k;
      decision.on_device = p;
    }
  }
  return why;
}

/// The minimum of a task that has its own was checked before.
bool Scheduler::below_threshold(std::span<const TaskShape> tasks) const {
  return std::ranges::all_of(tasks, [&](const TaskShape& task) {
    return !task.minimum && static_cast<double>(task.work()) <
                                measurements_.threshold(task.operation, task.first_threshold);
  });
}

void Scheduler::weigh(std::span<const TaskShape> tasks, Decision& decision) {
  SideFacts facts{.on_cpu = decision.on_cpu, .on_device = decision.on_device};
  const bool measured = facts.on_cpu.measured && facts.on_device.measured;
  Side* const last = measured ? &measurements_.last_side(tasks) : nullptr;
  if (last) {
    facts.last = *last;
  } else {
    facts.below_threshold = below_threshold(tasks);
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

bool Scheduler::try_first(const TaskShape& task, Decision& decision) {
  // Operands of queued work lie on one device: another one is no equal alternative.
  if (options_.explore_every == 0 || task.deadline_us > 0 || task.queued) return false;
  if (!decision.on_device.known()) return false;
  for (const Candidate& one : candidates_) {
    const Prediction& p = one.prediction;
    const bool hopeless = p.terms.total() > kUnknownFactor * decision.on_device.terms.total();
    if (p.known() || hopeless || targets_[one.target].queued_us() > 0) continue;
    if (!measurements_.try_first(task, one.target)) continue;
    decision.target = decision.device = one.target;
    decision.on_device = p;
    return true;
  }
  return false;
}

void Scheduler::explore(std::span<const TaskShape> tasks, Decision& decision) {
  others_.clear();
  if (decision.target != kCpu && (tasks.front().targets & 1) != 0)
    others_.push_back({kCpu, decision.on_cpu});
  for (const Candidate& one : candidates_)
    if (one.target != decision.target) others_.push_back(one);
  const Prediction& here = decision.target == kCpu ? decision.on_cpu : decision.on_device;
  const double instead_us = here.terms.work();
  const auto try_there = [&](std::size_t target) { return measurements_.try_at(tasks, target); };
  const Candidate* const other = exploration_.explores(tasks.front(), here, others_, try_there);
  if (other == nullptr) return;
  decision.target = other->target;
  decision.reason = Reason::explored;
  decision.instead_us = instead_us;
  if (other->target == kCpu) return;
  decision.device = other->target;
  decision.on_device = other->prediction;
}

/// Chooses by the rules, the model and exploration; overrides apply to all tasks.
Decision Scheduler::choose(std::span<const TaskShape> tasks, bool explores) {
  const TaskShape& first = tasks.front();
  measurements_.use(tasks);
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
    if (decision.device == kCpu) return decision;
    const bool only_devices = forced == Side::device || (first.targets & 1) == 0;
    if (only_devices) {
      decision.target = decision.device;
      decision.reason = forced == Side::device ? Reason::forced : Reason::unsupported;
      if (try_first(first, decision)) return decision;
    } else {
      weigh(tasks, decision);
      if (!below_threshold(tasks) && try_first(first, decision)) {
        decision.reason = Reason::unmeasured;
        return decision;
      }
    }
    if (explores && decision.reason != Reason::forced) explore(tasks, decision);
  }
  return decision;
}

/// Adds the task's load to the target.
void Scheduler::reserve(Decision& decision) {
  Target& target = targets_[decision.target];
  if (decision.target != kCpu) target.enter(clock_());
  decision.reserved_us =
      (decision.target == kCpu ? decision.on_cpu : decision.on_device).terms.work();
  // Work of unknown time counts too: other devices without measurements come first.
  if (decision.target != kCpu) decision.reserved_us = std::max(decision.reserved_us, 1.0);
  target.reserve(decision.reserved_us);
}

Decision Scheduler::decide(const TaskShape& task) {
  const std::lock_guard lock(mutex_);
  Decision decision = choose({&task, 1}, true);
  reserve(decision);
  return decision;
}

Decision Scheduler::decide_again(const TaskShape& task, const Decision& before) {
  const std::lock_guard lock(mutex_);
  targets_[before.target].release(before.reserved_us);
  targets_[before.target].leave();
  Decision decision = choose({&task, 1}, false);
  reserve(decision);
  return decision;
}

bool Scheduler::accepts(const TaskShape& task, std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return target == kCpu || !refusal(task, target, clock_());
}

std::vector<Scheduler::Share> Scheduler::divide(const TaskShape& task) {
  const std::lock_guard lock(mutex_);
  load();
  Decision best;
  find_device({&task, 1}, best);
  const bool known = best.on_device.known();
  const bool tries = options_.explore_every != 0 && task.deadline_us <= 0;
  std::erase_if(candidates_, [&](const Candidate& c) {
    const double us = c.prediction.terms.total();
    const bool hopeless = !tries || us > kUnknownFactor * best.on_device.terms.total();
    return known && !c.prediction.known() && hopeless;
  });
  const std::size_t count = candidates_.size();
  if (count < 2 || task.size < count) return {{best.device, 1}};

  // Times are taken to grow with the items: a history of one size says little about overhead.
  const auto us_of = [&](double share, std::size_t target) {
    const auto items = static_cast<std::uint64_t>(share * static_cast<double>(task.size));
    const TaskShape part = task.part(std::max<std::uint64_t>(items, 1));
    return predicted({&part, 1}, target).terms.work();
  };
  const double equal = 1 / static_cast<double>(count);
  const double best_us = known ? us_of(equal, best.device) : 1;
  std::vector<Load> loads;
  for (const Candidate& c : candidates_) {
    const bool measured = c.prediction.known();
    const double us = measured ? us_of(equal, c.target) : best_us * (known ? kUnknownFactor : 1);
    loads.push_back({.queue_us = c.prediction.terms.queue, .us = us / equal, .tried = !measured});
  }
  const std::vector<double> shares = shares_of(loads);
  std::vector<Share> out;
  double part_us = 0;  // of the best device
  for (std::size_t k = 0; k < count; ++k) {
    if (shares[k] > 0) out.push_back({candidates_[k].target, shares[k]});
    if (candidates_[k].target == best.device) part_us = us_of(shares[k], best.device);
  }
  const bool pays = best.on_device.terms.work() >= options_.speed_up_sure * part_us;
  if (!pays && std::ranges::none_of(loads, &Load::tried)) return {{best.device, 1}};
  return out;
}

Decision Scheduler::place(std::span<const TaskShape> tasks) {
  const std::lock_guard lock(mutex_);
  return choose(tasks, true);
}

Decision Scheduler::follow(const TaskShape& task, const Decision& placed) {
  const std::lock_guard lock(mutex_);
  const std::size_t target = placed.target;
  Decision decision{.target = target, .reason = placed.reason};
  const std::span<const TaskShape> one(&task, 1);
  measurements_.use(one);
  decision.on_cpu = predicted(one, kCpu);
  for (std::size_t k = target == kCpu ? 1 : target; k < targets_.size(); ++k) {
    if (target == kCpu && !targets_[k].usable(task.admit_software)) continue;
    decision.device = k;
    decision.on_device = predicted(one, k);
    break;
  }
  if (decision.reason == Reason::explored) {
    const Prediction& other = target == kCpu ? decision.on_device : decision.on_cpu;
    decision.instead_us = other.terms.work();
  }
  reserve(decision);
  return decision;
}

void Scheduler::cancel(const Decision& decision) {
  const std::lock_guard lock(mutex_);
  Target& target = targets_[decision.target];
  target.release(decision.reserved_us);
  target.leave();
}

void Scheduler::record(const TaskShape& task, const Decision& decision, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  targets_[decision.target].release(decision.reserved_us);
  exploration_.ran(decision, outcome);
  learn(task, decision.target, outcome);
}

void Scheduler::record(const TaskShape& task, std::size_t target, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  learn(task, target, outcome);
}

void Scheduler::record_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes,
                                 double us) {
  const std::lock_guard lock(mutex_);
  load();
  measurements_.learn_read_back(target, sent, bytes, us);
}

void Scheduler::learn(const TaskShape& task, std::size_t target, const Outcome& outcome) {
  const double now = clock_();
  if (!targets_[target].record(task, outcome, now)) {
    load();
    measurements_.refuse(task, target);
  }
  if (!outcome.success || outcome.cold || !task.teaches) return;
  if (priors_ && waiting_.size() < kMostWaiting) {
    Waiting& one = waiting_.emplace_back(Waiting{task, std::string(task.operation), outcome, now});
    one.task.resident = {};  // the caller's
    return;
  }
  load();
  measurements_.learn(task, target, outcome, now);
  const std::size_t first = target == kCpu ? 1 : target;
  const std::size_t last = target == kCpu ? targets_.size() : target + 1;
  for (std::size_t k = first; k < last; ++k)
    if (targets_[k].usable()) measurements_.move_threshold(task, k);
}

Prediction Scheduler::predict(const TaskShape& task, std::size_t target) const {
  const std::lock_guard lock(mutex_);
  load();
  return predicted({&task, 1}, target);
}

double Scheduler::speed_up(const TaskShape& task) const {
  const std::lock_guard lock(mutex_);
  load();
  const double cpu = predicted({&task, 1}, kCpu).terms.work();
  double best = 0;
  for (std::size_t k = 1; k < targets_.size(); ++k) {
    const Prediction p = predicted({&task, 1}, k);
    if (p.terms.kernel > 0 && (best == 0 || p.terms.work() < best)) best = p.terms.work();
  }
  return best > 0 ? cpu / best : 0;
}

double Scheduler::success_rate(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return targets_.at(target).success_rate();
}

std::uint64_t Scheduler::samples(const TaskShape& task, std::size_t target) const {
  const std::lock_guard lock(mutex_);
  load();
  return measurements_.samples(task, target);
}

std::uint64_t Scheduler::outcomes_learned() const {
  const std::lock_guard lock(mutex_);
  return measurements_.outcomes() + waiting_.size();
}

double Scheduler::threshold(std::string_view operation, std::uint64_t first) const {
  const std::lock_guard lock(mutex_);
  load();
  return measurements_.threshold(operation, first);
}

std::size_t Scheduler::target_count() const {
  const std::lock_guard lock(mutex_);
  return targets_.size();
}

std::vector<TargetState> Scheduler::targets() const {
  const std::lock_guard lock(mutex_);
  load();
  const double now = clock_();
  std::vector<TargetState> out;
  for (std::size_t k = 0; k < targets_.size(); ++k) {
    TargetState& state = out.emplace_back(targets_[k].state(now));
    const Measurements::Condition measured = measurements_.condition(k);
    state.drifts = measured.drifts;
    state.guess_error = measured.guess_error;
    state.load = measured.load;
  }
  return out;
}

Knowledge Scheduler::knowledge() const {
  const std::lock_guard lock(mutex_);
  load();
  return measurements_.knowledge();
}

void Scheduler::merge(const Knowledge& knowledge) {
  const std::lock_guard lock(mutex_);
  load();
  measurements_.merge(knowledge);
}

void Scheduler::merge_later(std::function<const Knowledge*()> load) {
  const std::lock_guard lock(mutex_);
  priors_ = std::move(load);
}

void Scheduler::load() const {
  if (!priors_) return;
  if (const Knowledge* const known = std::exchange(priors_, nullptr)()) measurements_.merge(*known);
  for (Waiting& one : std::exchange(waiting_, {})) {
    one.task.operation = one.operation;
    measurements_.learn(one.task, kCpu, one.outcome, one.now);
  }
}

}  // namespace topograd::runtime::hybrid
