// The executor: runs tasks where they are fastest, and on the CPU if a device fails.
#pragma once

#include "backend.hpp"
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

class KnowledgeFile;

enum class LogLevel { trace, info, warning };
using Log = std::function<void(LogLevel, const std::string&)>;

/// Called after each successful task, including those run elsewhere (record(), ran()), on the
/// thread that ran it, with operation, items and statistics.
using Observer = std::function<void(std::string_view, std::uint64_t, const ExecutionStats&)>;

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
  void set_log(Log log, LogLevel least = LogLevel::info);

  void set_observer(Observer observer);

  /// Runs a task and waits for it.
  ///
  /// Throws the errors of the task's CPU side; for a task forced to a device also Error{NoDevice,
  /// DeviceLost, OutOfDeviceMemory, Timeout, ShaderCompile, Unsupported}.
  ExecutionStats execute(Task& task);
  /// Runs independent tasks. Tasks with one kernel and itemwise programs become one dispatch.
  /// Returns statistics in the order of `tasks`. Throws the same errors, after the other tasks have
  /// ended.
  std::vector<ExecutionStats> execute(std::span<Task* const> tasks);
  /// Starts a task, which must outlive the future's result. Inside a task of this executor it runs
  /// at once on this thread: the outer task may wait for it.
  std::future<ExecutionStats> submit(Task& task);

  /// Compiles and allocates for the tasks on every device and measures them on both sides,
  /// `samples` times, so that their first decisions follow measurements.
  void warm_up(std::span<Task* const> tasks, int samples = 3);

  // For work that is run elsewhere: decisions by the same rules, histories and counters.
  /// Chooses a target. Follow with record() or scheduler().cancel().
  Decision decide(const TaskShape& task);
  /// The same for one of several tasks that were placed as one (Scheduler::place()).
  Decision follow(const TaskShape& task, const Decision& placed);
  /// Records that the task ran at its target, or failed there.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// Counts a choice made elsewhere; decide() counts its own.
  void routed(std::string_view operation, const Decision& decision) { note(operation, decision); }
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
  /// Target of the device with this name, or kCpu.
  std::size_t find_device(std::string_view name) const;

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
    return telemetry_.statistics(operation, device);
  }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const Telemetry& telemetry() const { return telemetry_; }
  TraceLog& trace() { return trace_; }
  const TraceLog& trace() const { return trace_; }
  /// Figures of all devices, with the label `device`.
  std::vector<Figure> figures() const;
  std::string explain(const Decision& decision) const;

 private:
  struct Device {
    std::unique_ptr<DeviceBackend> backend;
    std::string name;
    std::string driver;  ///< empty if not available
    std::atomic<bool> lost{false};
    std::mutex reopening;
  };
  /// Tasks that run as one.
  struct Group {
    std::vector<Task*> tasks;
    std::vector<std::size_t> places;  // positions in the caller's list
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
  /// Runs `work` on the decision's device; returns its error if it is a failure of the device.
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
  Knowledge known_;  // loaded data, for devices that are added later
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
