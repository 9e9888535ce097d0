// Runs tasks where they are fastest, and on the CPU whatever happens to a device.
#pragma once

#include <topograd/runtime/hybrid/backend.hpp>
#include <topograd/runtime/hybrid/telemetry.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::hybrid {

enum class LogLevel { trace, info, warning };
using Log = std::function<void(LogLevel, const std::string&)>;

/// Any member may be called by any thread; add_device() and set_log() before the first task.
///
/// A task that fails on a device is finished on the CPU, from the same inputs: one warning, one
/// count. Only a task that was forced to a device throws that device's error.
class Executor {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Executor(HybridOptions options = environment_hybrid_options(),
                    Clock clock = steady_clock());
  /// Waits for what was submitted.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Returns its target for the scheduler.
  std::size_t add_device(std::unique_ptr<DeviceBackend> device);
  /// From `least` on: info when a device is added, a warning for each fallback, a line for each
  /// decision.
  void set_log(Log log, LogLevel least = LogLevel::info);

  /// Runs a task and waits for it.
  ///
  /// Throws what the task's CPU side throws; for a task forced to a device also Error{NoDevice,
  /// DeviceLost, OutOfDeviceMemory, Timeout, ShaderCompile, Unsupported}.
  ExecutionStats execute(Task& task);
  /// Runs independent tasks. Those of one kernel whose programs are itemwise become one dispatch.
  /// Results in the order of `tasks`. Throws as above, after the others have ended.
  std::vector<ExecutionStats> execute(std::span<Task* const> tasks);
  /// Begins a task, which outlives the future's result.
  std::future<ExecutionStats> submit(Task& task);

  /// Compiles and allocates what the tasks will need on every device, and measures them on both
  /// sides, `samples` times, so that their first decisions are made from measurements.
  void warm_up(std::span<Task* const> tasks, int samples = 3);

  /// The CPU first, then the devices in their order.
  std::vector<Capabilities> capabilities() const;
  /// Zeros with HybridOptions::telemetry off.
  OperationStatistics statistics(std::string_view operation, std::string_view device) const {
    return telemetry_.statistics(operation, device);
  }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const Telemetry& telemetry() const { return telemetry_; }
  std::string explain(const Decision& decision) const;

 private:
  struct Device {
    std::unique_ptr<DeviceBackend> backend;
    std::string name;
    std::atomic<bool> lost{false};
    std::mutex reopening;
  };
  /// Tasks that run as one.
  struct Group {
    std::vector<Task*> tasks;
    std::vector<std::size_t> places;  // in the caller's list
  };

  const std::string& name_of(std::size_t target) const;
  void log(LogLevel level, const std::string& text) const;
  void note(std::string_view operation, const Decision& decision);
  ExecutionStats run(Task& task, const TaskShape& shape, const Decision& decision, Items items);
  ExecutionStats run_on_cpu(Task& task, const TaskShape& shape, Items items,
                            const Decision* decision);
  /// Runs `work` on the decision's device; the error that it failed with, if it is the device's.
  std::optional<Error> try_device(const TaskShape& shape, const Decision& decision,
                                  const std::function<RunReport(DeviceBackend&)>& work,
                                  ExecutionStats& stats);
  void fail(const TaskShape& shape, const Decision& decision, const Error& error);
  bool wants_split(Task& task, const TaskShape& shape, const Decision& decision) const;
  ExecutionStats run_split(Task& task, const TaskShape& shape, const Decision& decision);
  std::vector<Group> groups(std::span<Task* const> tasks) const;
  void run_group(const Group& group, std::span<ExecutionStats> out);
  void warm_up_on(Task& task, std::size_t target, int samples);

  const HybridOptions options_;
  Scheduler scheduler_;
  Telemetry telemetry_;
  CpuThreads threads_;
  std::deque<Device> devices_;  // target k is devices_[k - 1]
  Log log_;
  LogLevel least_level_ = LogLevel::info;
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace topograd::runtime::hybrid
