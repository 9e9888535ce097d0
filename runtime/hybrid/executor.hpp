// Runs tasks where they are fastest, and on the CPU whatever happens to a device.
#pragma once

#include "backend.hpp"
#include "state.hpp"
#include "telemetry/telemetry.hpp"
#include "telemetry/trace.hpp"

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

/// Called after each task that ended well, also after those that others run (record(), ran()), on
/// the thread that ran it: operation, items, how it ran.
using Observer = std::function<void(std::string_view, std::uint64_t, const ExecutionStats&)>;

/// Any member may be called by any thread; set_log() and set_observer() before the first task.
///
/// A task that fails on a device is finished on the CPU, from the same inputs: one warning, one
/// count. Only a task that was forced to a device throws that device's error.
class Executor {
 public:
  /// Throws Error{InvalidArgument} for options out of range.
  explicit Executor(HybridOptions options = environment_hybrid_options(),
                    Clock clock = steady_clock());
  /// Waits for what was submitted, but for a task that runs on this thread (it has called exit()).
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Returns its target for the scheduler.
  std::size_t add_device(std::unique_ptr<DeviceBackend> device);
  /// The target of the device with this name; adds what `make` gives where there is none.
  std::size_t target_of(std::string_view name,
                        const std::function<std::unique_ptr<DeviceBackend>()>& make);
  /// From `least` on: info when a device is added, a warning for each fallback, a line for each
  /// decision.
  void set_log(Log log, LogLevel least = LogLevel::info);

  void set_observer(Observer observer);

  /// Runs a task and waits for it.
  ///
  /// Throws what the task's CPU side throws; for a task forced to a device also Error{NoDevice,
  /// DeviceLost, OutOfDeviceMemory, Timeout, ShaderCompile, Unsupported}.
  ExecutionStats execute(Task& task);
  /// Runs independent tasks. Those of one kernel whose programs are itemwise become one dispatch.
  /// Results in the order of `tasks`. Throws as above, after the others have ended.
  std::vector<ExecutionStats> execute(std::span<Task* const> tasks);
  /// Begins a task, which outlives the future's result. From inside of a task of this executor it
  /// runs the other one at once, on this thread: the outer task may wait for it.
  std::future<ExecutionStats> submit(Task& task);

  /// Compiles and allocates what the tasks will need on every device, and measures them on both
  /// sides, `samples` times, so that their first decisions are made from measurements.
  void warm_up(std::span<Task* const> tasks, int samples = 3);

  // For work that others run: decisions by the same rules, histories and counters.
  /// Follow with record() or scheduler().cancel().
  Decision decide(const TaskShape& task);
  /// The same for one of several tasks that were placed as one (Scheduler::place()).
  Decision follow(const TaskShape& task, const Decision& placed);
  /// It ran where it was sent, or failed there.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// Counts a choice that was made elsewhere: decide() counts its own.
  void routed(std::string_view operation, const Decision& decision) { note(operation, decision); }
  /// Counters, trace and observer alone, for work that teaches the scheduler something else than
  /// its time as a whole.
  ///
  ///   target    where it really ran
  ///   decision  that it began with, for the observer
  void ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
           const Decision& decision);
  /// The host has read results of an operation that was queued, in so much time beside the
  /// kernels', if that is known.
  ///
  ///   sent  as in Scheduler::record_read_back()
  void read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                 std::uint64_t bytes, std::optional<double> us);
  /// The CPU took over from the decision's device, whose failure was recorded.
  void record_fallback(const TaskShape& task, const Decision& decision, const Error& error);
  /// The same for devices that could not be looked for, or opened, and so have no target: `device`
  /// is what telemetry calls them.
  void record_fallback(std::string_view operation, const std::string& device, const Error& error);
  /// The target of a device by its name, or kCpu if none has it.
  std::size_t find_device(std::string_view name) const;

  /// Writes what was learned where HybridOptions::state says; also done at the end if there is
  /// anything new. False if that was not possible, or is not asked for.
  bool save_state();
  /// The same at the end of the process, of an executor that is never destroyed. Does nothing in a
  /// child of fork(): what the parent learned, the parent saves.
  void save_at_exit() noexcept;

  /// The CPU first, then the devices in their order.
  std::vector<Capabilities> capabilities() const;
  /// Zeros with HybridOptions::telemetry off.
  OperationStatistics statistics(std::string_view operation, std::string_view device) const {
    return telemetry_.statistics(operation, device);
  }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const Telemetry& telemetry() const { return telemetry_; }
  TraceLog& trace() { return trace_; }
  const TraceLog& trace() const { return trace_; }
  /// Of all devices, with the label `device`.
  std::vector<Figure> figures() const;
  std::string explain(const Decision& decision) const;

 private:
  struct Device {
    std::unique_ptr<DeviceBackend> backend;
    std::string name;
    std::string driver;  ///< "" of what is not available
    std::atomic<bool> lost{false};
    std::mutex reopening;
  };
  /// Tasks that run as one.
  struct Group {
    std::vector<Task*> tasks;
    std::vector<std::size_t> places;  // in the caller's list
  };

  void save_learned() noexcept;
  Device& device(std::size_t target) const;
  std::vector<Device*> devices() const;
  const std::string& name_of(std::size_t target) const;
  void trace_task(std::string_view operation, std::size_t target, double end_seconds,
                  const Terms& times, std::uint64_t items);
  void tell(std::string_view operation, std::uint64_t items, const ExecutionStats& stats) const;
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
  TraceLog trace_;
  std::unique_ptr<KnowledgeFile> state_;
  Knowledge known_;  // what was read, for devices that come later
  CpuThreads threads_;
  std::mutex adding_;
  mutable std::mutex devices_mutex_;
  mutable std::deque<Device> devices_;  // target k is devices_[k - 1]
  Log log_;
  Observer observer_;
  LogLevel least_level_ = LogLevel::info;
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace topograd::runtime::hybrid
