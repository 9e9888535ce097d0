// Execution of one task: decision, run, learning, and fallback.
#include "executor.hpp"

#include "../../ir/machine/foreign_call.hpp"
#include "executor_arena.hpp"
#include "state.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {

Error no_device_error(const TaskShape& task, Reason reason) {
  ErrorCode code = ErrorCode::NoDevice;
  if (reason == Reason::unsupported) code = ErrorCode::Unsupported;
  if (reason == Reason::memory_limit || reason == Reason::out_of_memory)
    code = ErrorCode::OutOfDeviceMemory;
  if (reason == Reason::breaker_open || reason == Reason::success_rate)
    code = ErrorCode::DeviceLost;
  return Error(code, "task \"" + std::string(task.operation) + "\": forced to a device, but " +
                         std::string(name(reason)));
}

void Executor::set_log(Log log, LogLevel least) {
  log_ = std::move(log);
  least_level_ = least;
}

void Executor::log(LogLevel level, const std::string& text) const {
  if (log_ && level >= least_level_) log_(level, text);
}

void Executor::note(std::string_view operation, const Decision& decision) {
  if (options_.telemetry) telemetry_.routed(name_of(decision.target), decision.reason);
  if (log_ && least_level_ == LogLevel::trace)
    log(LogLevel::trace, std::string(operation) + " -> " + explain(decision));
}

ExecutionStats Executor::execute(Task& task) {
  const TaskShape shape = task.shape();
  const Decision decision = decide(shape);
  const ExecutionStats stats = wants_split(task, shape, decision)
                                   ? run_split(task, shape, decision)
                                   : run(task, shape, decision, {0, shape.size});
  tell(shape.operation, shape.size, stats);
  return stats;
}

ExecutionStats Executor::run(Task& task, const TaskShape& shape, const Decision& decision,
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
  fail(shape, decision, *error);
  stats = run_on_cpu(task, shape, items, nullptr);
  stats.decision = decision;
  stats.fallback = error->what();
  return stats;
}

ExecutionStats Executor::run_on_cpu(Task& task, const TaskShape& shape, Items items,
                                    const Decision* decision) {
  const double start = scheduler_.now();
  try {
    const RunsTask inside(*this);
    if (const std::uint64_t own = task.threads()) {
      task.run_on_cpu(CpuThreads(own), items);
    } else {
      task.run_on_cpu(threads_, items);
    }
  } catch (...) {
    if (decision) scheduler_.cancel(*decision);
    if (options_.telemetry)
      telemetry_.ran(shape.operation, "cpu", {.success = false}, items.count());
    throw;
  }
  Outcome outcome;
  outcome.times.kernel = 1e6 * (scheduler_.now() - start);
  if (decision) {
    scheduler_.record(shape, *decision, outcome);
  } else {
    scheduler_.record(shape, kCpu, outcome);
  }
  if (options_.telemetry) telemetry_.ran(shape.operation, "cpu", outcome, items.count());
  trace_task(shape.operation, kCpu, scheduler_.now(), outcome.times, items.count());
  ExecutionStats stats{.device = "cpu", .on_cpu = true, .times = outcome.times};
  if (decision) stats.decision = *decision;
  return stats;
}

std::optional<Error> Executor::try_device(const TaskShape& shape, const Decision& decision,
                                          const std::function<RunReport(DeviceBackend&)>& work,
                                          ExecutionStats& stats) {
  Device& device = this->device(decision.target);
  Outcome outcome;
  std::optional<Error> failure;
  RunReport report;
  double uncounted_us = 0;  // putting programs together, waking threads
  try {
    if (device.lost) {
      const ForeignCall permission("reopen");
      const std::lock_guard lock(device.reopening);
      if (device.lost) device.backend->reopen();
      device.lost = false;
    }
    const RunsTask inside(*this);
    const double began = scheduler_.now();
    report = work(*device.backend);
    uncounted_us = std::max(0.0, 1e6 * (scheduler_.now() - began) - report.times.work());
  } catch (const Error& error) {
    if (!is_device_failure(error.code())) {
      scheduler_.cancel(decision);
      throw;
    }
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ErrorCode::OutOfHostMemory, device.name + ": no memory on the host");
  } catch (...) {
    scheduler_.cancel(decision);
    throw;
  }
  if (failure) {
    if (failure->code() == ErrorCode::DeviceLost) device.lost = true;
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
  if (!failure)
    trace_task(shape.operation, decision.target, scheduler_.now(), report.times, shape.size);
  if (options_.telemetry) telemetry_.ran(shape.operation, device.name, outcome, shape.size);
  stats = {.device = device.name,
           .decision = decision,
           .times = report.times,
           .bytes_up = report.bytes_up,
           .bytes_down = report.bytes_down,
           .cache_hits = report.cache_hits};
  return failure;
}

void Executor::fail(const TaskShape& shape, const Decision& decision, const Error& error) {
  record_fallback(shape.operation, name_of(decision.target), error);
}

void Executor::record_fallback(std::string_view operation, const std::string& device,
                               const Error& error) {
  if (options_.telemetry) telemetry_.fell_back(operation, device, error.code());
  log(LogLevel::warning, "task \"" + std::string(operation) + "\": " + device +
                             " failed, the CPU takes over: " + error.what());
}

std::future<ExecutionStats> Executor::submit(Task& task) {
  auto promise = std::make_shared<std::promise<ExecutionStats>>();
  std::future<ExecutionStats> future = promise->get_future();
  const auto run = [this, promise, &task] {
    try {
      promise->set_value(execute(task));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  };
  // All threads could be inside tasks that wait for tasks like this one.
  if (RunsTask::here(*this)) {
    run();
  } else {
    arena_->begin(run);
  }
  return future;
}

void Executor::warm_up_on(Task& task, std::size_t target, int samples) {
  const TaskShape shape = task.shape();
  const Items all{0, shape.size};
  const Decision decision{.target = target, .device = target, .reason = Reason::forced};
  for (int k = 0; k <= samples; ++k) {
    if (target == kCpu) {
      run_on_cpu(task, shape, all, nullptr);
      continue;
    }
    ExecutionStats stats;
    const auto work = [&](DeviceBackend& device) {
      if (k == 0) {
        if (const auto program = task.program(all)) device.prepare(*program);
      }
      return task.run_on_device(device, all);
    };
    if (const auto error = try_device(shape, decision, work, stats)) {
      log(LogLevel::warning, "warm_up: " + name_of(target) + ": " + error->what());
      return;
    }
  }
}

void Executor::warm_up(std::span<Task* const> tasks, int samples) {
  require_tasks("warm_up", tasks);
  for (Task* task : tasks) {
    const std::uint64_t targets = task->shape().targets;
    const std::size_t last = devices().size();
    for (std::size_t target = 0; target <= last; ++target) {
      if ((targets >> target & 1) != 0 && scheduler_.admits(target))
        warm_up_on(*task, target, samples);
    }
  }
}

}  // namespace topograd::runtime::hybrid
