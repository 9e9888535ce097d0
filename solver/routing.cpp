// Placements as tasks of the hybrid executor.
#include <topograd/solver/routing.hpp>

#include <topograd/ir/program.hpp>
#include <topograd/solver/device_engine.hpp>

#include <algorithm>
#include <mutex>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

hybrid::HybridOptions process_options() {
  hybrid::HybridOptions base;
  base.state = "default";
  return hybrid::environment_hybrid_options(std::move(base));
}

/// Of what an outer step does: topologies, precision, and how steps are made.
ir::Hash128 kernel_of(const ProblemModel& model, const SolverOptions& options) {
  std::vector<ir::Hash128> topologies;
  for (const runtime::Term& term : model.model.terms) topologies.push_back(term.topology->hash);
  std::ranges::sort(topologies);
  ir::Hash128 hash;
  for (const ir::Hash128& topology : topologies) {
    hash.add(topology.high);
    hash.add(topology.low);
  }
  hash.add(static_cast<std::uint64_t>(options.precision));
  hash.add(static_cast<std::uint64_t>(options.method));
  hash.add(static_cast<std::uint64_t>(options.linear_solver));
  return hash;
}

/// Of one instance of what the residuals alone need: derivatives take more of the same.
hybrid::Features features_of(const ProblemModel& model) {
  double operations = 0, bytes = 0, instances = 0;
  for (const runtime::Term& term : model.model.terms) {
    const auto count = static_cast<double>(term.batch->size());
    instances += count;
    operations += count * static_cast<double>(ir::operation_count(term.topology->program));
    bytes += count *
             static_cast<double>(4 * term.batch->index_columns() + 8 * term.batch->data_columns() +
                                 8 * term.topology->program.outputs.size());
  }
  hybrid::Features features{.pattern = hybrid::MemoryPattern::gather};
  if (instances == 0) return features;
  features.operations = operations / instances;
  features.bytes = bytes / instances;
  return features;
}

std::string reason_text(const hybrid::Decision& decision, const std::string& device) {
  char numbers[120];
  switch (decision.reason) {
    case hybrid::Reason::slower:
      std::snprintf(numbers, sizeof numbers, "speed-up %.2f measured, %.2f needed",
                    decision.speed_up, decision.needed);
      return "cpu: \"" + device + "\" is slower here (" + numbers + ")";
    case hybrid::Reason::breaker_open:
    case hybrid::Reason::success_rate:
      return "cpu: \"" + device + "\" failed before and is left alone for a while";
    case hybrid::Reason::explored:
      return "cpu: to know how long it takes there, beside \"" + device + "\"";
    default:
      return "cpu: \"" + device + "\" was not chosen (" +
             std::string(hybrid::name(decision.reason)) + ")";
  }
}

}  // namespace

hybrid::Executor& hybrid_executor() {
  static hybrid::Executor executor(process_options());
  return executor;
}

Route::Route(const ProblemModel& model, const SolverOptions& options, const char* operation)
    : options_(options),
      operation_(operation),
      kernel_(kernel_of(model, options)),
      instances_(model.instances()),
      features_(features_of(model)) {}

hybrid::TaskShape Route::shape() const {
  return {.kernel = kernel_,
          .operation = operation_,
          .size = instances_,
          .minimum = options_.fallback_threshold,
          .targets = std::uint64_t{1} << device_ | 1,
          .features = features_};
}

hybrid::TaskShape Route::shape(runtime::KernelKind kind) const {
  hybrid::TaskShape task = shape();
  task.kernel.add(1 + static_cast<std::uint64_t>(kind));
  return task;
}

/// Nobody knows what will be asked for: what both sides have done says most about it.
hybrid::TaskShape Route::decisive_shape() const {
  hybrid::TaskShape best = shape();
  if (device_ == hybrid::kCpu) return best;
  const hybrid::Scheduler& scheduler = hybrid_executor().scheduler();
  double longest = 0;
  for (int k = 0; k < runtime::kKernelKinds; ++k) {
    const hybrid::TaskShape task = shape(static_cast<runtime::KernelKind>(k));
    const hybrid::Prediction cpu = scheduler.predict(task, hybrid::kCpu);
    if (!cpu.measured || !scheduler.predict(task, device_).measured) continue;
    if (cpu.terms.work() <= longest) continue;
    longest = cpu.terms.work();
    best = task;
  }
  return best;
}

/// Adds the device where nobody has met it before.
std::size_t Route::target_of(const DeviceFacts& facts) const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  hybrid::Executor& executor = hybrid_executor();
  const std::size_t known = executor.find_device(facts.name);
  return known != hybrid::kCpu ? known : executor.add_device(make_device_backend(options_));
}

Placement Route::decide(Placement rules, bool named, const DeviceFacts* facts) {
  if (facts && facts->usable) {
    device_name_ = facts->name;
    device_ = target_of(*facts);
  }
  if (options_.backend != Backend::automatic || options_.deterministic) return rules;
  hybrid::TaskShape task = decisive_shape();
  task.admit_software = named;
  if (rules.backend == Backend::cpu) task.targets = 1;
  decision_ = hybrid_executor().decide(task);
  if (rules.backend == Backend::cpu || decision_->target != hybrid::kCpu) return rules;
  return {Backend::cpu, reason_text(*decision_, facts->name)};
}

void Route::failed(const Error& failure) {
  hybrid::Executor& executor = hybrid_executor();
  const hybrid::Outcome outcome{.success = false, .error = failure.code()};
  if (decision_ && decision_->target != hybrid::kCpu) {
    executor.record(shape(), *decision_, outcome);
    decision_.reset();
  } else if (device_ != hybrid::kCpu) {
    executor.scheduler().record(shape(), device_, outcome);
  }
  if (options_.backend == Backend::automatic)
    executor.record_fallback(operation_, device_name_, failure);
}

void Route::measured(bool on_device, double step_us) { tell(shape(), on_device, step_us); }

void Route::measured(runtime::KernelKind kind, bool on_device, double us) {
  tell(shape(kind), on_device, us);
}

void Route::tell(const hybrid::TaskShape& task, bool on_device, double us) {
  const hybrid::Outcome outcome{.times = {.kernel = us}, .settled = true};
  const std::size_t target = on_device ? device_ : hybrid::kCpu;
  if (on_device && device_ == hybrid::kCpu) return;
  if (decision_ && decision_->target == target) {
    hybrid_executor().record(task, *decision_, outcome);
    decision_.reset();
  } else {
    hybrid_executor().scheduler().record(task, target, outcome);
  }
}

Route::~Route() {
  if (!decision_) return;
  try {
    hybrid_executor().record(shape(), *decision_, {.cold = true});
  } catch (...) {
    // Counters alone suffer.
  }
}

}  // namespace topograd
