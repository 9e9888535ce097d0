// Placements as tasks of the hybrid executor.
#include "routing.hpp"

#include "../../ir/machine/platform.hpp"
#include "../../ir/program.hpp"
#include "../../runtime/hybrid/executor.hpp"
#include "../../runtime/hybrid/routing/decision.hpp"
#include "device_engine.hpp"

#include <algorithm>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

/// Hash of everything that affects the cost of an outer step: topologies, precision, step type.
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

/// Steps of one method and linear solver do like work for each residual.
std::uint64_t family_of(const SolverOptions& options) {
  ir::Hash128 hash;
  hash.add(static_cast<std::uint64_t>(options.precision));
  hash.add(static_cast<std::uint64_t>(options.method));
  hash.add(static_cast<std::uint64_t>(options.linear_solver));
  return hash.low;
}

/// The work of the residuals alone: derivatives take more of the same.
hybrid::Work work_of(const ProblemModel& model) {
  const std::uint64_t parameters = 8 * model.model.scalars;
  hybrid::Work work{.operations = 0,
                    .bytes_read = parameters,
                    .bytes_written = 0,
                    .pattern = hybrid::MemoryPattern::gather};
  for (const runtime::Term& term : model.model.terms) {
    const ir::Program& program = term.topology->program;
    const auto count = static_cast<double>(term.batch->size());
    const double columns = count * static_cast<double>(4 * term.batch->index_columns() +
                                                       8 * term.batch->data_columns());
    work.operations.value += count * static_cast<double>(ir::operation_count(program));
    work.bytes_read.value += columns;
    work.reads += columns + count * static_cast<double>(8 * program.leaves.parameters);
    work.bytes_written.value += count * static_cast<double>(8 * program.outputs.size());
  }
  return work;
}

/// Bytes on a device for a solve, as far as the model shows: stored columns, their inversion for
/// gathering (an entry and a part of its block each), residuals, and the vectors of conjugate
/// gradients and of the line of points.
std::uint64_t held_bytes(const ProblemModel& model, Precision precision) {
  constexpr std::uint64_t kIndex = 4, kVectors = 12;
  const std::uint64_t number = precision == Precision::f32 ? 4 : 8;
  std::uint64_t bytes = kVectors * number * model.model.scalars;
  for (const runtime::Term& term : model.model.terms) {
    bytes += term.batch->size() *
             (3 * kIndex * term.batch->index_columns() + number * term.batch->data_columns() +
              number * term.topology->program.outputs.size());
  }
  return bytes;
}

}  // namespace

hybrid::Executor& hybrid_executor() { return *hybrid::process_executor(); }

bool names_device(const SolverOptions& options) {
  return !options.device.empty() || platform::environment("TOPOGRAD_DEVICE").has_value();
}

Route::Route(const ProblemModel& model, const SolverOptions& options, const char* operation)
    : executor_(hybrid::process_executor()),
      options_(options),
      operation_(operation),
      kernel_(kernel_of(model, options)),
      instances_(model.instances()),
      bytes_(held_bytes(model, options.precision)),
      features_(work_of(model).per_item(instances_)) {
  features_.family = family_of(options);
}

hybrid::TaskShape Route::shape() const {
  return {.kernel = kernel_,
          .operation = operation_,
          .size = instances_,
          .minimum = options_.fallback_threshold,
          .bytes_held = bytes_,
          .targets = std::uint64_t{1} << device_ | 1,
          .features = features_};
}

hybrid::TaskShape Route::shape(runtime::Pass pass) const {
  hybrid::TaskShape task = shape();
  task.kernel.add(1 + static_cast<std::uint64_t>(pass));
  task.features.family += 1 + static_cast<std::uint64_t>(pass);
  return task;
}

/// Nobody knows what will be asked for: what both sides have done says most about it.
hybrid::TaskShape Route::decisive_shape() const {
  hybrid::TaskShape best = shape();
  if (device_ == hybrid::kCpu) return best;
  const hybrid::Scheduler& scheduler = executor_->scheduler();
  double longest = 0;
  for (int k = 0; k < runtime::kEvaluations; ++k) {
    const hybrid::TaskShape task = shape(static_cast<runtime::Pass>(k));
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
  return executor_->target_of(facts.name, [&] { return make_device_backend(options_); });
}

/// The decision that metrics show for a choice without the scheduler.
hybrid::Decision Route::unasked(bool on_device) const {
  hybrid::Decision decision{.target = on_device ? device_ : hybrid::kCpu, .device = device_};
  if (options_.backend != Backend::automatic) {
    decision.reason = hybrid::Reason::forced;
  } else if (on_device) {
    decision.reason = hybrid::Reason::unmeasured;
  } else if (instances_ < options_.fallback_threshold.value_or(0)) {
    decision.reason = hybrid::Reason::below_minimum;
  }
  return decision;
}

void Route::consider(const DeviceFacts& facts) {
  if (!facts.available) return;
  device_name_ = facts.name;
  device_ = target_of(facts);
  // What f64 takes on a device that has it says nothing of one that emulates it.
  if (facts.emulated_float64 && options_.precision != Precision::f32) {
    kernel_.add(static_cast<std::uint64_t>(Float64::emulated));
    features_.family += static_cast<std::uint64_t>(Float64::emulated) << 32;
  }
}

const hybrid::Decision& Route::ask(bool named, bool on_device) {
  hybrid::TaskShape task = decisive_shape();
  task.admit_software = named;
  if (!on_device) task.targets = 1;
  made_ = executor_->outside_work().decide(task);
  decision_ = made_;
  return made_;
}

void Route::follow(bool on_device) {
  made_ = executor_->outside_work().follow(shape(), unasked(on_device));
  decision_ = made_;
}

void Route::failed(const Error& failure) {
  const hybrid::Outcome outcome{.success = false, .error = failure.code()};
  const bool decided = decision_ && decision_->target != hybrid::kCpu;
  const std::size_t target = decided ? decision_->target : device_;
  if (target != hybrid::kCpu) {
    learn(shape(), target, outcome);
    executor_->outside_work().ran(shape(), target, outcome, made_);
  }
  judged_ = false;  // the CPU has not been
  if (options_.backend == Backend::automatic)
    executor_->outside_work().record_fallback(operation_, device_name_, failure);
}

void Route::measured_steps(bool on_device, std::span<double> step_seconds) {
  if (step_seconds.size() < 3 || (on_device && device_ == hybrid::kCpu)) return;
  const std::span<double> later = step_seconds.subspan(1);
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  learn(shape(), on_device ? device_ : hybrid::kCpu,
        {.times = {.kernel = 1e6 * *middle}, .settled = true});
}

void Route::measured(runtime::Pass pass, bool on_device, double us) {
  if (on_device && device_ == hybrid::kCpu) return;
  learn(shape(pass), on_device ? device_ : hybrid::kCpu,
        {.times = {.kernel = us}, .settled = true});
}

/// Answers the decision, if it was for this target.
void Route::learn(const hybrid::TaskShape& task, std::size_t target,
                  const hybrid::Outcome& outcome) {
  judged_ = true;
  if (instances_ == 0) return;
  hybrid::Scheduler& scheduler = executor_->scheduler();
  if (decision_ && decision_->target == target) {
    scheduler.record(task, *decision_, outcome);
    decision_.reset();
  } else {
    scheduler.record(task, target, outcome);
  }
}

void Route::ended(bool on_device, double seconds, const runtime::EngineCounts& counts) {
  const std::size_t target = on_device ? device_ : hybrid::kCpu;
  // Too short to teach times, but the backend has been used.
  if (!judged_) learn(shape(), target, {.cold = true});
  judged_ = false;
  drop_decision();
  executor_->outside_work().ran(shape(), target,
                                {.times = {.kernel = 1e6 * seconds},
                                 .bytes_up = counts.bytes_up,
                                 .bytes_down = counts.bytes_down,
                                 .cache_hits = counts.shader_cache_hits},
                                made_);
}

/// It ran elsewhere or not at all.
void Route::drop_decision() {
  if (!decision_) return;
  executor_->scheduler().cancel(*decision_);
  decision_.reset();
}

Route::~Route() {
  try {
    drop_decision();
  } catch (...) {
    // The load that is reckoned with alone suffers.
  }
}

}  // namespace topograd
