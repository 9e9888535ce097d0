// Times of components from sizes alone, the rules that compare them, and the machine's facts.
#include "component_route.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../../ir/program.hpp"
#include "../linear/system_search.hpp"
#include "../session/device_engine.hpp"
#include "../session/routing.hpp"
#include "../session/session.hpp"
#include "device_minimizer.hpp"

#include <algorithm>
#include <mutex>
#include <set>

namespace topograd {
namespace {

/// Evaluations and systems of a component until it ends, and those of them that its check repeats:
/// least squares of curves took 5 to 6, and a check two, or one where the device was in f64.
constexpr double kRounds = 6, kLeastCheckRounds = 1, kCheckRounds = 2;

// Seconds on one core of an EPYC with AVX-512, whose registers hold 8 components: fitted to peaks
// and to chains of 2 to 64 unknowns (bench/components.cpp).
constexpr double kLaneOperationSeconds =
    1e-9;  ///< an operation of the residuals, and its derivatives
constexpr double kLaneProductSeconds = 3e-10;  ///< one of the products that JᵀJ sums
constexpr double kLaneCubeSeconds = 1.2e-10;   ///< n³ / 6 of a factor
constexpr double kLaneUnknownSeconds = 2e-8;   ///< an unknown in the rules of a step
/// With 16 threads, which share cores and memory, each does half of the work of one that is alone.
constexpr double kCrowding = 1.0 / 16;

// On an H200, by the same problems. Others differ; what is measured replaces what is predicted.
/// Seconds of an operation of the one invocation that minimises a component: its numbers may be in
/// memory, and each waits for the one before. And operations a second of all invocations, in f32.
constexpr double kSerialSeconds = 6e-8;
constexpr double kInvocationRate = 3e12;
/// Seconds of a round for each unknown, in a workgroup that minimises a component: barriers at its
/// pivots. And bytes of shared memory of all workgroups that run at once.
constexpr double kPivotSeconds = 1.2e-5;
constexpr double kSharedBytes = 3e7;
constexpr double kWorkgroupBytes = 8192;  ///< of one workgroup, besides its sums
/// Seconds of a number that a thread gathers or returns.
constexpr double kGatherSeconds = 1.5e-9;
/// Submission and wait.
constexpr double kSubmitSeconds = 2e-4;
/// A kernel that is in no cache is compiled.
constexpr double kCompileSeconds = 0.05;

/// Below, no device saves anything.
constexpr double kLeastSeconds = 2e-3;
/// Predictions are off by such factors; a device has to be clearly faster.
constexpr double kClearlyFaster = 1.1;

/// Seconds of one core.
double core_seconds(const ComponentWork& one) {
  const double n = one.unknowns;
  return kRounds * (kLaneOperationSeconds * one.operations + kLaneProductSeconds * one.products +
                    kLaneCubeSeconds * n * n * n / 6 + kLaneUnknownSeconds * n);
}

double on_threads(double core_seconds, int threads) {
  const double t = std::max(threads, 1);
  return core_seconds * (1 + kCrowding * (t - 1)) / t;
}

double kernel_seconds(const GroupWork& group, Precision precision) {
  const double n = group.one.unknowns, number = precision == Precision::f64 ? 8 : 4;
  if (n <= kLargestOfInvocation) {
    const double operations =
        kRounds * (2 * group.one.operations + 2 * group.one.products + n * n * n / 3 + 4 * n * n);
    return operations * (kSerialSeconds + number / 4 * group.count / kInvocationRate);
  }
  const double bytes = number * (n * n + 9 * n) + kWorkgroupBytes;
  return kRounds * kPivotSeconds * n * std::max(1.0, group.count * bytes / kSharedBytes);
}

double setup_seconds(const RouteFacts& facts) {
  const bool fixed = facts.deterministic;
  const double start = facts.opened && !fixed ? 0 : kDeviceStartSeconds;
  double kernels = 0;
  for (const GroupWork& group : facts.groups)
    kernels += group.on_device && (fixed || !facts.kernels_made) ? kCompileSeconds : 0;
  if (fixed) return start + kernels;
  return std::max(0.0, start - facts.spent) + std::max(0.0, kernels - facts.spent_here);
}

/// Nothing is worth a look: the CPU ends before a device that takes no time would have been opened.
bool is_too_short(const RouteFacts& facts, double cpu) {
  if (facts.threshold == 0) return false;
  const double checks = facts.host_checks ? cpu * kLeastCheckRounds / kRounds : 0;
  return cpu < kLeastSeconds || cpu < kClearlyFaster * (checks + setup_seconds(facts));
}

std::string seconds_text(double seconds) { return platform::formatted("%.2g s", seconds); }

}  // namespace

ComponentWork work_of(const ComponentGroup& group) {
  ComponentWork out{.unknowns = static_cast<double>(group.columns),
                    .up = static_cast<double>(group.scalars),
                    .down = static_cast<double>(group.scalars + kMinimizerReport)};
  struct Each {
    double operations = 0, products = 0;
  };
  std::vector<Each> kernels;
  for (const ComponentKernel& kernel : group.kernels) {
    const ir::Program& program = kernel.term->topology->program;
    const auto free = static_cast<double>(
        std::ranges::count_if(kernel.free, [](std::uint8_t f) { return f != 0; }));
    kernels.push_back({static_cast<double>(ir::operation_count(program)),
                       static_cast<double>(program.outputs.size()) * free * (free + 1) / 2});
  }
  for (const ComponentRows& rows : group.residuals) {
    out.operations += kernels[rows.kernel].operations;
    out.products += kernels[rows.kernel].products;
    out.up += static_cast<double>(std::ranges::count_if(
        rows.data, [](const ComponentNumbers& n) { return n.positions != nullptr; }));
  }
  return out;
}

double cpu_seconds(const RouteFacts& facts) {
  double out = 0;
  for (const GroupWork& group : facts.groups)
    out += on_threads(group.count * core_seconds(group.one), facts.threads);
  return out;
}

RouteSeconds device_seconds(const RouteFacts& facts, Precision precision) {
  RouteSeconds out{.setup = setup_seconds(facts)};
  const double number = precision == Precision::f64 ? 8 : 4;
  const double rounds = precision == Precision::f64 ? kLeastCheckRounds : kCheckRounds;
  for (const GroupWork& group : facts.groups) {
    const double cpu = on_threads(group.count * core_seconds(group.one), facts.threads);
    if (!group.on_device) {
      out.host += cpu;
      continue;
    }
    const double numbers = group.count * (group.one.up + group.one.down);
    out.kernels += kernel_seconds(group, precision);
    out.transfers += kSubmitSeconds + number * numbers / kReadBackRate +
                     on_threads(numbers * kGatherSeconds, facts.threads);
    if (facts.host_checks) out.host += cpu * rounds / kRounds;
  }
  return out;
}

RouteChoice decide_route(const RouteFacts& facts) {
  RouteChoice out{.reason = RouteReason::below_threshold};
  if (facts.instances < facts.threshold) return out;
  out.cpu_seconds = cpu_seconds(facts);
  out.reason = RouteReason::short_solve;
  if (is_too_short(facts, out.cpu_seconds)) return out;
  if (!facts.device) {
    out.asks_for_device = true;
    return out;
  }
  const RouteDeviceFacts& device = *facts.device;
  const auto stays = [&](RouteReason reason) {
    out.reason = reason;
    return out;
  };
  if (!device.found.available) return stays(RouteReason::no_device);
  if (device.found.software() && !device.named) return stays(RouteReason::software_device);
  if (device.refused) return stays(RouteReason::refused);
  if (std::ranges::none_of(facts.groups, &GroupWork::on_device))
    return stays(RouteReason::no_component);
  out.device_seconds = device_seconds(facts, device.precision);
  if (!facts.deterministic && device.cpu_seconds) {
    out.device_seconds.host *= *device.cpu_seconds / out.cpu_seconds;
    out.cpu_seconds = *device.cpu_seconds;
  }
  const double there = !facts.deterministic && device.seconds
                           ? out.device_seconds.setup + *device.seconds
                           : out.device_seconds.total();
  if (out.cpu_seconds <= kClearlyFaster * there) return stays(RouteReason::slower);
  out.on_device = true;
  return stays(RouteReason::faster);
}

std::string text(const RouteChoice& choice, const RouteFacts& facts, const std::string& problem) {
  const auto compared = [&] {
    const RouteDeviceFacts& device = *facts.device;
    const bool measured = !facts.deterministic;
    const RouteSeconds& s = choice.device_seconds;
    std::string on_cpu = seconds_text(choice.cpu_seconds) +
                         (measured && device.cpu_seconds ? " measured" : " expected") +
                         " on the CPU, ";
    const std::string there = " on \"" + device.found.name + "\"";
    if (measured && device.seconds)
      return on_cpu + seconds_text(s.setup + *device.seconds) + " measured" + there;
    return on_cpu + seconds_text(s.total()) + " expected" + there + " (setup " +
           seconds_text(s.setup) + ", transfers " + seconds_text(s.transfers) + ", kernels " +
           seconds_text(s.kernels) + ", the host's part " + seconds_text(s.host) + ")";
  };
  switch (choice.reason) {
    case RouteReason::asked_for: return {};
    case RouteReason::below_threshold:
      return "cpu: " + std::to_string(facts.instances) + " instances are below the threshold of " +
             std::to_string(facts.threshold);
    case RouteReason::short_solve:
      return "cpu: about " + seconds_text(choice.cpu_seconds) +
             ", too short for a device to save time";
    case RouteReason::no_device: return "cpu: " + facts.device->found.problem;
    case RouteReason::software_device:
      return "cpu: the only Vulkan device is software (" + facts.device->found.name +
             ") and was not named";
    case RouteReason::refused:
      return "cpu: \"" + facts.device->found.name +
             "\" failed before and is left alone for a while, or has too little memory";
    case RouteReason::no_component: return "cpu: a device can minimise none of the components";
    case RouteReason::slower: return "cpu: " + compared();
    case RouteReason::faster: return "vulkan: " + compared();
    case RouteReason::device_failed: return "cpu: the device failed: " + problem;
  }
  return {};
}

namespace {

namespace hybrid = runtime::hybrid;

constexpr const char* kComponentsName = "components";

/// Components that a device has minimised in this process, by the hash of their kernels. Any
/// thread.
class UsedKernels {
 public:
  /// Never destroyed: other threads may still ask it while the process ends.
  static UsedKernels& process() {
    static auto& made = *new UsedKernels;
    return made;
  }
  void add(const ir::Hash128& kernel) {
    const std::lock_guard lock(mutex_);
    if (kernels_.size() >= kMost) kernels_.clear();
    kernels_.insert(kernel);
    any_ = true;
  }
  void tell(const ir::Hash128& kernel, RouteFacts& facts) {
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
ir::Hash128 components_hash(const ComponentGroups& groups, const SolverOptions& options,
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

/// Memory of a device: components of a group go in parts of some buffers.
std::uint64_t held_bytes(const RouteFacts& facts) {
  constexpr double kMost = 3 * 64e6;
  double most = 0;
  for (const GroupWork& group : facts.groups)
    most = std::max(most, 8 * group.count * (group.one.up + group.one.down));
  return static_cast<std::uint64_t>(std::min(most, kMost));
}

}  // namespace

ComponentRoute::ComponentRoute(const ComponentGroups& groups, const SolverOptions& options,
                               bool host_checks)
    : groups_(groups), options_(options) {
  facts_.threshold = options.fallback_threshold.value_or(0);
  facts_.threads = threads_of(options);
  facts_.host_checks = host_checks || options.component_covariances;
  facts_.deterministic = options.deterministic;
  if (options.backend == Backend::cpu) return;
  kernel_ = components_hash(groups, options, facts_.host_checks);
  for (const ComponentGroup& group : groups.groups) {
    facts_.groups.push_back({.one = work_of(group)});
    blocks_.push_back(group.residuals.size());
  }
}

void ComponentRoute::look() {
  const DeviceFacts found = look_for_device(options_, search_seconds_);
  facts_.device = RouteDeviceFacts{.found = found};
  if (!found.available) return;
  device_ = minimizer_device(found, options_);
  facts_.device->precision = device_->precision;
  // The host checks a device in another precision than was asked for.
  facts_.host_checks |=
      options_.precision == Precision::f64 && device_->precision != Precision::f64;
  if (options_.backend != Backend::automatic) return;
  facts_.device->named =
      names_device(options_) ||
      (found.software() && hybrid_executor().scheduler().options().admit_software);
  for (std::size_t g = 0; g < groups_.groups.size(); ++g)
    facts_.groups[g].on_device = device_->obstacle_of(groups_.groups[g]).empty();
  if (!facts_.deterministic && (!found.software() || facts_.device->named))
    target_ =
        hybrid_executor().target_of(found.name, [&] { return make_device_backend(options_); });
}

hybrid::TaskShape ComponentRoute::task() const {
  return {.kernel = kernel_,
          .operation = kComponentsName,
          .size = groups_.count,
          .bytes_held = held_bytes(facts_),
          .targets = std::uint64_t{1} << target_ | 1,
          .admit_software = facts_.device && facts_.device->named};
}

void ComponentRoute::ask_executor() {
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

const MinimizerDevice* ComponentRoute::decide() {
  search_seconds_ = 0;
  choice_ = {};
  if (options_.backend == Backend::cpu) return nullptr;
  if (options_.backend == Backend::vulkan) {
    if (!facts_.device) look();
    const DeviceFacts& found = facts_.device->found;
    if (!found.available) throw Error(found.code, "backend vulkan: " + found.problem);
    choice_.on_device = true;
    return &*device_;
  }
  facts_.instances = 0;
  for (std::size_t g = 0; g < groups_.groups.size(); ++g) {
    facts_.groups[g].count = static_cast<double>(groups_.groups[g].count);
    facts_.instances += groups_.groups[g].count * blocks_[g];
  }
  UsedKernels::process().tell(kernel_, facts_);
  facts_.spent = seconds_of_short_solves();
  choice_ = decide_route(facts_);
  if (choice_.is_by_size()) return nullptr;
  if (!facts_.device) look();
  if (target_ != hybrid::kCpu) ask_executor();
  choice_ = decide_route(facts_);
  return choice_.on_device ? &*device_ : nullptr;
}

std::string ComponentRoute::obstacle() const {
  for (const ComponentGroup& group : groups_.groups)
    if (std::string why = device_ ? device_->obstacle_of(group) : std::string(); !why.empty())
      return why;
  return {};
}

bool ComponentRoute::take_over(const Error& failure) {
  if (options_.backend != Backend::automatic || !choice_.on_device ||
      !is_device_failure(failure.code()))
    return false;
  hybrid::Executor& executor = hybrid_executor();
  if (target_ != hybrid::kCpu)
    executor.scheduler().record(task(), target_, {.success = false, .error = failure.code()});
  executor.outside_work().record_fallback(kComponentsName, device_->facts.name, failure);
  choice_.on_device = false;
  choice_.reason = RouteReason::device_failed;
  problem_ = failure.what();
  return true;
}

void ComponentRoute::describe(Summary& summary) const {
  const std::string why = text(choice_, facts_, problem_);
  if (!why.empty()) summary.why += "; " + why;
  summary.times.device_search_seconds = search_seconds_;
}

void ComponentRoute::ended(double seconds, bool cold) {
  if (choice_.on_device) UsedKernels::process().add(kernel_);
  if (options_.backend != Backend::automatic || facts_.deterministic) return;
  if (choice_.reason == RouteReason::short_solve || choice_.reason == RouteReason::slower) {
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
