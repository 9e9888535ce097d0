// Executors, which run tasks on the CPU or a device, and the one of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "routing/options.hpp"
#include "routing/scheduler.hpp"
#include "task_record.hpp"

namespace topograd::runtime::hybrid {

// Work that callers run themselves: decisions by an executor's rules, and its histories and
// counters.

/// Solves, Evaluators and operations of arrays and tensors ask here where they should run, and say
/// how it went. Thread-safe.
class OutsideWork {
 public:
  /// All arguments outlive it.
  OutsideWork(Scheduler& scheduler, const DeviceList& devices, TaskRecord& record)
      : scheduler_(scheduler), devices_(devices), record_(record) {}

  /// Chooses a target. Follow with record() or Scheduler::cancel().
  Decision decide(const TaskShape& task);
  /// The same for one of several tasks that were placed as one (Scheduler::place()).
  Decision follow(const TaskShape& task, const Decision& placed);
  /// Counts a choice made elsewhere; decide() counts its own.
  void routed(std::string_view operation, const Decision& decision);

  /// Records that the task ran at its target, or failed there.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// Updates counters, trace and observer only, for work whose total time teaches the scheduler
  /// nothing.
  ///
  ///   target    where it really ran
  ///   decision  its initial decision, for the observer
  void ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
           const Decision& decision);
  /// Records that the host has read results of a queued operation, and the time this took in
  /// addition to the kernels', if known.
  ///
  ///   sent  as in Scheduler::record_read_back()
  void read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                 std::uint64_t bytes, std::optional<double> us);
  /// Records that the CPU took over from the decision's device, whose failure was recorded.
  void record_fallback(const TaskShape& task, const Decision& decision, const Error& error);
  /// The same for devices that could not be searched for or opened, and so have no target: `device`
  /// is their name in telemetry.
  void record_fallback(std::string_view operation, const std::string& device, const Error& error);

 private:
  Scheduler& scheduler_;
  const DeviceList& devices_;
  TaskRecord& record_;
};

class StoredKnowledge;
class TaskRunner;

/// All members are thread-safe, but call set_log() and set_observer() before the first task.
///
/// A task that fails on a device is finished on the CPU from the same inputs, with one warning and
/// one count. Only a task forced to a device throws that device's error.
class Executor {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Executor(HybridOptions options = environment_hybrid_options(),
                    Clock clock = steady_clock());
  /// Waits for submitted tasks, except for a task that runs on this thread (it has called exit()).
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Adds a device. Returns its target for the scheduler.
  std::size_t add_device(std::unique_ptr<DeviceBackend> device);
  /// Returns the target of the device with this name; adds the device from `make` if there is none.
  std::size_t target_of(std::string_view name,
                        const std::function<std::unique_ptr<DeviceBackend>()>& make);
  /// Logs messages of level `least` and above: info for a new device, a warning for each fallback,
  /// a line for each decision.
  void set_log(Log log, LogLevel least = LogLevel::info) { record_.set_log(std::move(log), least); }

  void set_observer(Observer observer) { record_.set_observer(std::move(observer)); }

  /// Runs a task and waits for it.
  ///
  /// Throws the errors of the task's CPU side; for a task forced to a device also Error{NoDevice,
  /// DeviceLost, OutOfDeviceMemory, Timeout, ShaderCompile, Unsupported}.
  ExecutionStats execute(Task& task);
  /// Runs independent tasks, on all targets at the same time. Tasks with one kernel and itemwise
  /// programs become one dispatch a device. Returns statistics in the order of `tasks`. Throws the
  /// same errors, after the other tasks have ended.
  std::vector<ExecutionStats> execute(std::span<Task* const> tasks);
  /// Starts a task, which must outlive the future's result. Inside a task of this executor it runs
  /// at once on this thread: the outer task may wait for it.
  std::future<ExecutionStats> submit(Task& task);

  /// Compiles and allocates for the tasks on every device and measures them on both sides,
  /// `samples` times, so that their first decisions follow measurements.
  void warm_up(std::span<Task* const> tasks, int samples = 3);

  /// Runs a task on a device and on the CPU, and compares the results. Elements that only one side
  /// writes differ. The task's memory then has the results of the CPU, or what it had before if
  /// this throws.
  ///
  /// Throws Error{NoDevice} if no device has that name or can run the task, Error{Unsupported} for
  /// a task without an implementation for the CPU or without results, and the errors of both sides.
  TaskCheck check(Task& task, const CheckOptions& options = {});

  /// Decisions and records of work that callers run themselves.
  OutsideWork& outside_work() { return outside_work_; }
  /// Target of the device with this name, or kCpu.
  std::size_t find_device(std::string_view name) const { return devices_.find(name); }

  /// Writes learned data to HybridOptions::state; also done at destruction if there is anything
  /// new. Returns false if that fails or is disabled.
  bool save_state();
  /// The same at the end of the process, for an executor that is never destroyed. Does nothing in a
  /// child of fork(): the parent saves what it learned.
  void save_at_exit() noexcept;

  /// The CPU first, then the devices in their order.
  std::vector<Capabilities> capabilities() const;
  /// Zeros with HybridOptions::telemetry off.
  OperationStatistics statistics(std::string_view operation, std::string_view device) const {
    return record_.telemetry().statistics(operation, device);
  }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const Telemetry& telemetry() const { return record_.telemetry(); }
  TraceLog& trace() { return record_.trace(); }
  const TraceLog& trace() const { return record_.trace(); }
  /// Figures of all devices, with the label `device`.
  std::vector<Figure> figures() const;
  std::string explain(const Decision& decision) const;

 private:
  void save_learned() noexcept;

  const HybridOptions options_;
  Scheduler scheduler_;
  DeviceList devices_;
  TaskRecord record_;
  OutsideWork outside_work_;
  std::unique_ptr<StoredKnowledge> knowledge_;
  std::unique_ptr<TaskRunner> runner_;
  std::mutex adding_;
};

/// Returns the process's executor for solves, Evaluators, operations of arrays and tensors, and
/// tasks of users, so that each device has one queue account and one breaker. It is made at the
/// first call, with options from the environment (process_hybrid_options()), and lives until the
/// process ends.
///
/// Throws Error{InvalidArgument} for variables that cannot be read.
inline const std::shared_ptr<Executor>& process_executor() {
  // Never destroyed: other threads may still ask it while the process ends.
  static const auto& executor =
      *new std::shared_ptr<Executor>(std::make_shared<Executor>(process_hybrid_options()));
  [[maybe_unused]] static const int kSave = std::atexit([] { process_executor()->save_at_exit(); });
  return executor;
}

/// Text exposition format 0.0.4. docs/hybrid.md lists names, labels and units.
std::string prometheus_text(const Executor& executor);

/// The same as one JSON object, with capabilities and each kernel's history (hash, counts, times).
std::string metrics_json(const Executor& executor);

}  // namespace topograd::runtime::hybrid
