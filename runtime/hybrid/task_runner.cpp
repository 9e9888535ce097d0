// Execution of one task: decision, run, learning, and fallback.
#include "task_runner.hpp"

#include "routing/choice.hpp"
#include "task_arena.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::runtime::hybrid {

TaskRunner::TaskRunner(const Executor& owner, const HybridOptions& options, Scheduler& scheduler,
                       DeviceList& devices, Recorder& recorder)
    : owner_(owner),
      options_(options),
      scheduler_(scheduler),
      devices_(devices),
      recorder_(recorder),
      threads_(options.threads),
      arena_(std::make_unique<TaskArena>(scheduler)) {}

TaskRunner::~TaskRunner() = default;

bool TaskRunner::finish() { return arena_->finish(); }

bool TaskRunner::owns_pool() const { return arena_->usable(); }

ExecutionStats TaskRunner::execute(Task& task) {
  const TaskShape shape = task.shape();
  return follow(task, shape, scheduler_.decide(shape));
}

ExecutionStats TaskRunner::follow(Task& task, const TaskShape& shape, const Decision& decision) {
  recorder_.decided(shape.operation, decision);
  ExecutionStats stats = wants_split(task, shape, decision)
                             ? run_split(task, shape, decision)
                             : run(task, shape, decision, {0, shape.size});
  recorder_.observe(shape.operation, shape.size, stats);
  return stats;
}

ExecutionStats TaskRunner::run(Task& task, const TaskShape& shape, const Decision& decision,
                               Items items) {
  const bool forced = forced_side(shape, options_) == Side::device;
  if (decision.target == kCpu) {
    if (forced || (shape.targets & 1) == 0) {
      scheduler_.cancel(decision);
      throw no_device_error(shape, decision.reason);
    }
    return run_on_cpu(task, shape, items, &decision);
  }
  ExecutionStats stats;
  const std::optional<Error> error = try_device(
      shape, decision, [&](DeviceBackend& device) { return task.run_on_device(device, items); },
      stats);
  if (!error) return stats;
  if (forced || (shape.targets & 1) == 0) throw *error;
  fell_back(shape, decision, *error);
  stats = run_on_cpu(task, shape, items, nullptr);
  stats.decision = decision;
  stats.fallback = error->what();
  return stats;
}

ExecutionStats TaskRunner::run_on_cpu(Task& task, const TaskShape& shape, Items items,
                                      const Decision* decision) {
  const double start = scheduler_.now();
  try {
    const RunsTask inside(owner_);
    if (const std::uint64_t own = task.threads()) {
      task.run_on_cpu(CpuThreads(own), items);
    } else {
      task.run_on_cpu(threads_, items);
    }
  } catch (...) {
    if (decision) scheduler_.cancel(*decision);
    recorder_.ran(shape.operation, kCpu, {.success = false}, items.count(), scheduler_.now());
    throw;
  }
  const double end = scheduler_.now();
  Outcome outcome;
  outcome.times.kernel = 1e6 * (end - start);
  if (decision) {
    scheduler_.record(shape, *decision, outcome);
  } else {
    scheduler_.record(shape, kCpu, outcome);
  }
  recorder_.ran(shape.operation, kCpu, outcome, items.count(), end);
  ExecutionStats stats{.device = "cpu", .on_cpu = true, .times = outcome.times};
  if (decision) stats.decision = *decision;
  return stats;
}

std::optional<Error> TaskRunner::try_device(const TaskShape& shape, const Decision& decision,
                                            const std::function<RunReport(DeviceBackend&)>& work,
                                            ExecutionStats& stats) {
  ExecutorDevice& device = devices_.at(decision.target);
  Outcome outcome;
  std::optional<Error> failure;
  RunReport report;
  double uncounted_us = 0;  // putting programs together, waking threads
  try {
    DeviceBackend& backend = device.ready();
    const RunsTask inside(owner_);
    const double began = scheduler_.now();
    report = work(backend);
    uncounted_us = std::max(0.0, 1e6 * (scheduler_.now() - began) - report.times.work());
  } catch (const Error& error) {
    if (!is_device_failure(error.code())) {
      scheduler_.cancel(decision);
      throw;
    }
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ErrorCode::OutOfHostMemory, device.name() + ": no memory on the host");
  } catch (...) {
    scheduler_.cancel(decision);
    throw;
  }
  if (failure) {
    if (failure->code() == ErrorCode::DeviceLost) device.lose();
    outcome.success = false;
    outcome.error = failure->code();
  } else {
    outcome.times = report.times;
    outcome.bytes_up = report.bytes_up;
    outcome.bytes_down = report.bytes_down;
    outcome.cache_hits = report.cache_hits;
    outcome.cold = report.cold;
  }
  Outcome learned = outcome;
  learned.times.submit += uncounted_us;
  scheduler_.record(shape, decision, learned);
  recorder_.ran(shape.operation, decision.target, outcome, shape.size, scheduler_.now());
  stats = {.device = device.name(),
           .decision = decision,
           .times = report.times,
           .bytes_up = report.bytes_up,
           .bytes_down = report.bytes_down,
           .cache_hits = report.cache_hits};
  return failure;
}

void TaskRunner::fell_back(const TaskShape& shape, const Decision& decision, const Error& error) {
  recorder_.fell_back(shape.operation, devices_.name_of(decision.target), error);
}

std::future<ExecutionStats> TaskRunner::submit(Task& task) {
  auto promise = std::make_shared<std::promise<ExecutionStats>>();
  std::future<ExecutionStats> future = promise->get_future();
  try {
    const TaskShape shape = task.shape();
    const auto run = [this, promise, &task, shape](const Decision& decision) {
      try {
        promise->set_value(follow(task, shape, decision));
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    };
    const Decision decision = scheduler_.decide(shape);
    // All threads could be inside tasks that wait for tasks like this one.
    if (RunsTask::here(owner_)) {
      run(decision);
    } else {
      arena_->begin({shape, decision, run});
    }
  } catch (...) {
    promise->set_exception(std::current_exception());
  }
  return future;
}

}  // namespace topograd::runtime::hybrid
