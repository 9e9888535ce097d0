// Asks the machine and the executor.
#include "walk_route.hpp"

#include "../../ir/error.hpp"
#include "../linear/system_search.hpp"
#include "../session/device_engine.hpp"
#include "../session/routing.hpp"
#include "../session/session.hpp"

#include <algorithm>
#include <mutex>
#include <set>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

constexpr const char* kComponentsName = "components";

/// Components that have walked on a device in this process, by the hash of their kernels. Any
/// thread.
class Walked {
 public:
  /// Never destroyed: other threads may still ask it while the process ends.
  static Walked& process() {
    static auto& made = *new Walked;
    return made;
  }
  void add(const ir::Hash128& kernel) {
    const std::lock_guard lock(mutex_);
    if (kernels_.size() >= kMost) kernels_.clear();
    kernels_.insert(kernel);
    any_ = true;
  }
  void tell(const ir::Hash128& kernel, WalkFacts& facts) {
    const std::lock_guard lock(mutex_);
    facts.opened = any_;
    facts.kernels_made = kernels_.contains(kernel);
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::mutex mutex_;
  std::set<ir::Hash128> kernels_;
  bool any_ = false;
};

/// Hash of everything that affects the time of a component: what it evaluates, and in which
/// precision, and whether the host checks it.
ir::Hash128 walk_kernel_hash(const ComponentGroups& groups, const SolverOptions& options,
                             bool host_checks) {
  ir::Hash128 hash;
  for (const ComponentGroup& group : groups.groups) {
    hash.add(group.columns);
    hash.add(group.residuals.size());
    for (const ComponentKernel& kernel : group.kernels) {
      hash.add(kernel.term->topology->hash.high);
      hash.add(kernel.term->topology->hash.low);
    }
  }
  hash.add(static_cast<std::uint64_t>(options.precision));
  hash.add(static_cast<std::uint64_t>(options.method));
  hash.add(host_checks ? 1 : 0);
  return hash;
}

/// Memory of a device: walks of a group go in parts of some buffers.
std::uint64_t held_bytes(const WalkFacts& facts) {
  constexpr double kMost = 3 * 64e6;
  double most = 0;
  for (const GroupWork& group : facts.groups)
    most = std::max(most, 8 * group.count * (group.one.up + group.one.down));
  return static_cast<std::uint64_t>(std::min(most, kMost));
}

}  // namespace

WalkRoute::WalkRoute(const ComponentGroups& groups, const SolverOptions& options, bool host_checks)
    : groups_(groups), options_(options) {
  facts_.threshold = options.fallback_threshold.value_or(0);
  facts_.threads = threads_of(options);
  facts_.host_checks = host_checks || options.component_covariances;
  facts_.deterministic = options.deterministic;
  if (options.backend == Backend::cpu) return;
  kernel_ = walk_kernel_hash(groups, options, facts_.host_checks);
  for (const ComponentGroup& group : groups.groups) {
    facts_.groups.push_back({.one = work_of(group)});
    blocks_.push_back(group.residuals.size());
  }
}

void WalkRoute::look() {
  const DeviceFacts found = look_for_device(options_, search_seconds_);
  facts_.device = WalkDeviceFacts{.found = found};
  if (!found.usable) return;
  device_ = walk_device(found, options_);
  facts_.device->precision = device_->precision;
  // The host checks walks in another precision than was asked for.
  facts_.host_checks |=
      options_.precision == Precision::f64 && device_->precision != Precision::f64;
  if (options_.backend != Backend::automatic) return;
  facts_.device->named = names_device(options_) ||
                         (found.software && hybrid_executor().scheduler().options().admit_software);
  for (std::size_t g = 0; g < groups_.groups.size(); ++g)
    facts_.groups[g].walks = device_->obstacle_of(groups_.groups[g]).empty();
  if (!facts_.deterministic && (!found.software || facts_.device->named))
    target_ =
        hybrid_executor().target_of(found.name, [&] { return make_device_backend(options_); });
}

hybrid::TaskShape WalkRoute::task() const {
  return {.kernel = kernel_,
          .operation = kComponentsName,
          .size = groups_.count,
          .bytes_held = held_bytes(facts_),
          .targets = std::uint64_t{1} << target_ | 1,
          .admit_software = facts_.device && facts_.device->named};
}

void WalkRoute::ask_executor() {
  const hybrid::Scheduler& scheduler = hybrid_executor().scheduler();
  const auto measured = [&](std::size_t target) -> std::optional<double> {
    const hybrid::Prediction known = scheduler.predict(task(), target);
    if (!known.measured) return std::nullopt;
    return 1e-6 * known.terms.work();
  };
  facts_.device->refused = !scheduler.accepts(task(), target_);
  facts_.device->cpu_seconds = measured(hybrid::kCpu);
  facts_.device->seconds = measured(target_);
}

const WalkDevice* WalkRoute::decide() {
  search_seconds_ = 0;
  choice_ = {};
  if (options_.backend == Backend::cpu) return nullptr;
  if (options_.backend == Backend::vulkan) {
    if (!facts_.device) look();
    const DeviceFacts& found = facts_.device->found;
    if (!found.usable) throw Error(found.code, "backend vulkan: " + found.problem);
    choice_.on_device = true;
    return &*device_;
  }
  facts_.instances = 0;
  for (std::size_t g = 0; g < groups_.groups.size(); ++g) {
    facts_.groups[g].count = static_cast<double>(groups_.groups[g].count);
    facts_.instances += groups_.groups[g].count * blocks_[g];
  }
  Walked::process().tell(kernel_, facts_);
  facts_.spent = seconds_of_short_solves();
  choice_ = decide_walk(facts_);
  if (choice_.is_by_size()) return nullptr;
  if (!facts_.device) look();
  if (target_ != hybrid::kCpu) ask_executor();
  choice_ = decide_walk(facts_);
  return choice_.on_device ? &*device_ : nullptr;
}

std::string WalkRoute::obstacle() const {
  for (const ComponentGroup& group : groups_.groups)
    if (std::string why = device_ ? device_->obstacle_of(group) : std::string(); !why.empty())
      return why;
  return {};
}

bool WalkRoute::take_over(const Error& failure) {
  if (options_.backend != Backend::automatic || !choice_.on_device ||
      !is_device_failure(failure.code()))
    return false;
  hybrid::Executor& executor = hybrid_executor();
  if (target_ != hybrid::kCpu)
    executor.scheduler().record(task(), target_, {.success = false, .error = failure.code()});
  executor.outside_work().record_fallback(kComponentsName, device_->name, failure);
  choice_.on_device = false;
  choice_.reason = WalkReason::device_failed;
  problem_ = failure.what();
  return true;
}

void WalkRoute::describe(Summary& summary) const {
  const std::string why = text(choice_, facts_, problem_);
  if (!why.empty()) summary.why += "; " + why;
  summary.times.device_search_seconds = search_seconds_;
}

void WalkRoute::ended(double seconds, bool cold) {
  if (choice_.on_device) Walked::process().add(kernel_);
  if (options_.backend != Backend::automatic || facts_.deterministic) return;
  if (choice_.reason == WalkReason::short_solve || choice_.reason == WalkReason::slower) {
    add_short_solve(seconds);
    facts_.spent_here += seconds;
  }
  if (target_ == hybrid::kCpu) return;
  const std::size_t target = choice_.on_device ? target_ : hybrid::kCpu;
  const hybrid::Outcome outcome{
      .times = {.kernel = 1e6 * seconds}, .cold = cold && choice_.on_device, .settled = true};
  hybrid_executor().scheduler().record(task(), target, outcome);
  hybrid_executor().outside_work().ran(
      task(), target, outcome,
      {.target = target, .device = target_, .reason = hybrid::Reason::guessed});
}

}  // namespace topograd
