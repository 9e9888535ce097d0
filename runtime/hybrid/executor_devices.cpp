// Devices of an executor, its stored state, and its log, trace and figures.
#include "executor.hpp"

#include "executor_arena.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {

Executor::Executor(HybridOptions options, Clock clock)
    : options_(options),
      scheduler_(std::move(options), std::move(clock)),
      trace_(options_.trace_events),
      threads_(options_.threads),
      arena_(std::make_unique<Arena>()) {
  if (options_.state.empty() || options_.state == "none") return;
  state_ = std::make_unique<KnowledgeFile>(options_.state);
  std::optional<Knowledge> known = state_->load();
  if (known) {
    known_ = std::move(*known);
    scheduler_.merge(known_);
    telemetry_.state_loaded(true);
  } else if (state_->rejected() > 0 || !state_->disabled().empty()) {
    telemetry_.state_loaded(false);
  }
}

Executor::~Executor() {
  const bool ours = arena_->arena.usable();
  arena_ = nullptr;
  if (ours) save_learned();
}

void Executor::save_learned() noexcept {
  try {
    if (scheduler_.outcomes_learned() > 0) save_state();
  } catch (...) {
    // Ignored: the next run can do without it.
  }
}

void Executor::save_at_exit() noexcept {
  if (arena_->arena.usable()) save_learned();
}

bool Executor::save_state() {
  if (!state_) return false;
  Knowledge knowledge = scheduler_.knowledge();
  for (const Device* one : devices())
    if (!one->driver.empty()) knowledge.drivers[one->name] = one->driver;
  // Merges data that others have learned meanwhile, including other executors of this process, and
  // data of devices that are not present now.
  if (const std::optional<Knowledge> now = state_->load())
    merge(knowledge, *now, options_.max_kernels);
  merge(knowledge, known_, options_.max_kernels);
  const bool stored = state_->store(knowledge);
  telemetry_.state_written(stored);
  return stored;
}

std::size_t Executor::add_device(std::unique_ptr<DeviceBackend> backend) {
  const Capabilities c = backend->capabilities();
  backend->limit_resident(options_.resident_limit);
  std::size_t target = 0;
  {
    const std::lock_guard lock(devices_mutex_);
    Device& device = devices_.emplace_back();
    device.backend = std::move(backend);
    device.name = c.name;
    if (c.available) device.driver = c.driver;
    target = scheduler_.add_device(
        {.name = c.name,
         .software = c.kind == "software",
         .available = c.available,
         .memory_bytes = c.memory_bytes,
         .free_bytes = [b = device.backend.get()] { return b->free_bytes(); }});
  }
  const auto before = known_.drivers.find(c.name);
  if (before != known_.drivers.end() && c.available && before->second != c.driver) {
    log(LogLevel::info, "device " + c.name + ": driver " + c.driver + ", what was learned under " +
                            before->second + " is forgotten");
    forget(known_, c.name);
  }
  scheduler_.merge(known_);
  log(LogLevel::info, "device " + c.name + " (" + c.kind + ")" +
                          (c.available ? std::string() : ": not available: " + c.problem));
  return target;
}

std::size_t Executor::target_of(std::string_view name,
                                const std::function<std::unique_ptr<DeviceBackend>()>& make) {
  const std::lock_guard lock(adding_);
  const std::size_t known = find_device(name);
  return known != kCpu ? known : add_device(make());
}

void Executor::set_observer(Observer observer) { observer_ = std::move(observer); }

Executor::Device& Executor::device(std::size_t target) const {
  const std::lock_guard lock(devices_mutex_);
  return devices_.at(target - 1);
}

std::vector<Executor::Device*> Executor::devices() const {
  const std::lock_guard lock(devices_mutex_);
  std::vector<Device*> out;
  for (Device& one : devices_) out.push_back(&one);
  return out;
}

const std::string& Executor::name_of(std::size_t target) const {
  static const std::string& cpu = *new std::string("cpu");
  return target == kCpu ? cpu : device(target).name;
}

std::size_t Executor::find_device(std::string_view name) const {
  const std::vector<Device*> all = devices();
  const auto found = std::ranges::find(all, name, [](const Device* one) { return one->name; });
  return found == all.end() ? kCpu : static_cast<std::size_t>(found - all.begin()) + 1;
}

std::vector<Figure> Executor::figures() const {
  std::vector<Figure> out;
  for (const Device* one : devices()) {
    for (Figure& figure : one->backend->figures()) {
      figure.labels.insert(figure.labels.begin(), {"device", one->name});
      out.push_back(std::move(figure));
    }
  }
  return out;
}

/// Parts follow each other and end at the task's end.
void Executor::trace_task(std::string_view operation, std::size_t target, double end_seconds,
                          const Terms& times, std::uint64_t items) {
  if (!trace_.on()) return;
  const std::string& lane = name_of(target);
  const bool on_device = target != kCpu;
  double at = 1e6 * end_seconds - times.work();
  const std::string count = std::to_string(items);
  trace_.add({std::string(operation), lane, at, times.work(), {{"items", count}}, on_device});
  if (!on_device) return;
  const std::pair<const char*, double> parts[] = {{"upload", times.upload},
                                                  {"submit", times.submit},
                                                  {"kernel", times.kernel},
                                                  {"read-back", times.read_back}};
  for (const auto& [part, us] : parts) {
    if (us > 0) trace_.add({part, lane, at, us, {}, on_device});
    at += us;
  }
}

void Executor::tell(std::string_view operation, std::uint64_t items,
                    const ExecutionStats& stats) const {
  if (observer_) observer_(operation, items, stats);
}

Decision Executor::decide(const TaskShape& task) {
  const Decision decision = scheduler_.decide(task);
  note(task.operation, decision);
  return decision;
}

Decision Executor::follow(const TaskShape& task, const Decision& placed) {
  const Decision decision = scheduler_.follow(task, placed);
  note(task.operation, decision);
  return decision;
}

void Executor::record(const TaskShape& task, const Decision& decision, const Outcome& outcome) {
  scheduler_.record(task, decision, outcome);
  ran(task, decision.target, outcome, decision);
}

void Executor::ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
                   const Decision& decision) {
  const std::string& where = name_of(target);
  if (outcome.success && !outcome.untimed)
    trace_task(task.operation, target, scheduler_.now(), outcome.times, task.size);
  if (options_.telemetry) telemetry_.ran(task.operation, where, outcome, task.size);
  if (!observer_ || !outcome.success) return;
  tell(task.operation, task.size,
       {.device = where,
        .on_cpu = target == kCpu,
        .decision = decision,
        .times = outcome.times,
        .bytes_up = outcome.bytes_up,
        .bytes_down = outcome.bytes_down,
        .cache_hits = outcome.cache_hits});
}

void Executor::read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                         std::uint64_t bytes, std::optional<double> us) {
  if (options_.telemetry) telemetry_.read_back(operation, name_of(target), bytes);
  if (us) scheduler_.record_read_back(target, sent, bytes, *us);
}

void Executor::record_fallback(const TaskShape& task, const Decision& decision,
                               const Error& error) {
  fail(task, decision, error);
}

std::string Executor::explain(const Decision& decision) const {
  return hybrid::explain(decision, name_of(decision.device));
}

std::vector<Capabilities> Executor::capabilities() const {
  std::vector<Capabilities> out = {{.name = "cpu",
                                    .kind = "cpu",
                                    .driver = "interpreter",
                                    .threads = threads_.count(),
                                    .simd = simd_level()}};
  for (const Device* one : devices()) out.push_back(one->backend->capabilities());
  return out;
}

}  // namespace topograd::runtime::hybrid
