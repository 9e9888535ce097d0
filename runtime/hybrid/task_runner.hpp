// Runs an executor's tasks: one after a decision, lists by kernel, and parts on both sides.
#pragma once

#include "backend.hpp"
#include "task.hpp"
#include "task_record.hpp"

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::hybrid {

class TaskArena;

/// Public members are as in Executor. Thread-safe.
class TaskRunner {
 public:
  /// All arguments outlive it. `executor` marks threads that run its tasks.
  TaskRunner(const Executor& executor, const HybridOptions& options, Scheduler& scheduler,
             DeviceList& devices, TaskRecord& record);
  /// Waits for submitted tasks.
  ~TaskRunner();

  ExecutionStats execute(Task& task);
  std::vector<ExecutionStats> execute(std::span<Task* const> tasks);
  std::future<ExecutionStats> submit(Task& task);
  void warm_up(std::span<Task* const> tasks, int samples);
  TaskCheck check(Task& task, const CheckOptions& options);

  int threads() const { return threads_.count(); }
  /// Waits for submitted tasks, except for one that runs on this thread. Returns false in a child
  /// of fork(), where they are the parent's.
  bool finish();
  /// False in a child of fork().
  bool owns_pool() const;

 private:
  /// Tasks of one kernel.
  struct Group {
    std::vector<Task*> tasks;
    std::vector<std::size_t> positions;  // positions in the caller's list
  };
  /// A list of tasks that is being executed.
  struct List;

  /// Runs a task where it was decided.
  ExecutionStats follow(Task& task, const TaskShape& shape, const Decision& decision);
  ExecutionStats run(Task& task, const TaskShape& shape, const Decision& decision, Items items);
  ExecutionStats run_on_cpu(Task& task, const TaskShape& shape, Items items,
                            const Decision* decision);
  /// Runs `work` on the decision's device; returns its error if it is a failure of the device.
  std::optional<Error> try_device(const TaskShape& shape, const Decision& decision,
                                  const std::function<RunReport(DeviceBackend&)>& work,
                                  ExecutionStats& stats);
  void fell_back(const TaskShape& shape, const Decision& decision, const Error& error);
  bool wants_split(Task& task, const TaskShape& shape, const Decision& decision) const;
  ExecutionStats run_split(Task& task, const TaskShape& shape, const Decision& decision);
  std::vector<Group> groups(std::span<Task* const> tasks) const;
  void begin_group(const Group& group, List& list);
  /// Begins tasks whose programs can run as one.
  void begin_joined(List& list, Group group, std::vector<DeviceProgram> programs,
                    const Decision& decision);
  /// Begins a task of a list, or several that run as one.
  void begin(List& list, TaskShape shape, const Decision& decision,
             std::function<void(const Decision&)> run);
  /// Runs tasks as one program, or each on the CPU.
  void run_group(const Group& group, const TaskShape& shape, std::vector<DeviceProgram> programs,
                 const Decision& decision, std::span<ExecutionStats> out);
  void warm_up_on(Task& task, std::size_t target, int samples);
  std::size_t target_to_check(const TaskShape& shape, const std::string& device) const;

  const Executor& executor_;
  const HybridOptions& options_;
  Scheduler& scheduler_;
  DeviceList& devices_;
  TaskRecord& record_;
  const CpuThreads threads_;
  const std::unique_ptr<TaskArena> arena_;
};

}  // namespace topograd::runtime::hybrid
