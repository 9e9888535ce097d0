// The executor's parts.
#include "executor.hpp"

#include <utility>

#include "stored_knowledge.hpp"
#include "task_runner.hpp"

namespace topograd::runtime::hybrid {

Executor::Executor(HybridOptions options, Clock clock)
    : options_(options),
      scheduler_(std::move(options), std::move(clock)),
      record_(options_, devices_),
      outside_work_(scheduler_, devices_, record_),
      knowledge_(std::make_unique<StoredKnowledge>(options_, scheduler_, record_.telemetry())),
      runner_(std::make_unique<TaskRunner>(*this, options_, scheduler_, devices_, record_)) {}

Executor::~Executor() {
  if (runner_->finish()) save_learned();
}

void Executor::save_learned() noexcept {
  try {
    if (scheduler_.outcomes_learned() > 0) save_state();
  } catch (...) {
    // Ignored: the next run can do without it.
  }
}

void Executor::save_at_exit() noexcept {
  if (runner_->owns_pool()) save_learned();
}

bool Executor::save_state() { return knowledge_->save(devices_); }

std::size_t Executor::add_device(std::unique_ptr<DeviceBackend> backend) {
  const Capabilities c = backend->capabilities();
  backend->limit_resident(options_.resident_limit);
  const std::size_t target = devices_.add(std::move(backend), c, scheduler_);
  if (const auto before = knowledge_->add(devices_.at(target))) {
    record_.log(LogLevel::info, "device " + c.name + ": driver " + c.driver +
                                    ", what was learned under " + *before + " is forgotten");
  }
  record_.log(LogLevel::info, "device " + c.name + " (" + c.kind + ")" +
                                  (c.available ? "" : ": not available: " + c.problem));
  return target;
}

std::size_t Executor::target_of(std::string_view name,
                                const std::function<std::unique_ptr<DeviceBackend>()>& make) {
  const std::lock_guard lock(adding_);
  const std::size_t known = find_device(name);
  return known != kCpu ? known : add_device(make());
}

ExecutionStats Executor::execute(Task& task) { return runner_->execute(task); }

std::vector<ExecutionStats> Executor::execute(std::span<Task* const> tasks) {
  return runner_->execute(tasks);
}

std::future<ExecutionStats> Executor::submit(Task& task) { return runner_->submit(task); }

void Executor::warm_up(std::span<Task* const> tasks, int samples) {
  runner_->warm_up(tasks, samples);
}

TaskCheck Executor::check(Task& task, const CheckOptions& options) {
  return runner_->check(task, options);
}

std::vector<Capabilities> Executor::capabilities() const {
  std::vector<Capabilities> out = {{.name = "cpu",
                                    .kind = "cpu",
                                    .driver = "interpreter",
                                    .threads = runner_->threads(),
                                    .simd = simd_level()}};
  for (const ExecutorDevice* one : devices_.all())
    out.emplace_back(one->backend().capabilities()).name = one->name();
  return out;
}

std::vector<Figure> Executor::figures() const {
  std::vector<Figure> out;
  for (const ExecutorDevice* one : devices_.all()) {
    for (Figure& figure : one->backend().figures()) {
      figure.labels.insert(figure.labels.begin(), {"device", one->name()});
      out.push_back(std::move(figure));
    }
  }
  return out;
}

std::string Executor::explain(const Decision& decision) const {
  return hybrid::explain(decision, devices_.name_of(decision.device));
}

Decision OutsideWork::decide(const TaskShape& task) {
  const Decision decision = scheduler_.decide(task);
  record_.decided(task.operation, decision);
  return decision;
}

Decision OutsideWork::follow(const TaskShape& task, const Decision& placed) {
  const Decision decision = scheduler_.follow(task, placed);
  record_.decided(task.operation, decision);
  return decision;
}

void OutsideWork::routed(std::string_view operation, const Decision& decision) {
  record_.decided(operation, decision);
}

void OutsideWork::record(const TaskShape& task, const Decision& decision, const Outcome& outcome) {
  scheduler_.record(task, decision, outcome);
  ran(task, decision.target, outcome, decision);
}

void OutsideWork::ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
                      const Decision& decision) {
  record_.ran(task.operation, target, outcome, task.size, scheduler_.now());
  if (!record_.has_observer() || !outcome.success) return;
  record_.observe(task.operation, task.size,
                  {.device = devices_.name_of(target),
                   .on_cpu = target == kCpu,
                   .decision = decision,
                   .times = outcome.times,
                   .bytes_up = outcome.bytes_up,
                   .bytes_down = outcome.bytes_down,
                   .cache_hits = outcome.cache_hits});
}

void OutsideWork::read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                            std::uint64_t bytes, std::optional<double> us) {
  record_.read_back(operation, target, bytes);
  if (us) scheduler_.record_read_back(target, sent, bytes, *us);
}

void OutsideWork::record_fallback(const TaskShape& task, const Decision& decision,
                                  const Error& error) {
  record_.fell_back(task.operation, devices_.name_of(decision.target), error);
}

void OutsideWork::record_fallback(std::string_view operation, const std::string& device,
                                  const Error& error) {
  record_.fell_back(operation, device, error);
}

}  // namespace topograd::runtime::hybrid
