// Runs one task by decision, run, learning and fallback, lists of tasks, and parts on both sides.
#include "task_runner.hpp"

#include "../../ir/machine/foreign_call.hpp"
#include "../../ir/machine/parallel.hpp"
#include "routing/decision.hpp"
#include "routing/scheduler.hpp"

#include <tbb/task_group.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

/// A task, or several that run as one, with its target.
struct BegunTask {
  TaskShape shape;
  Decision decision;
  std::function<void(const Decision&)> run;  ///< records the decision; throws nothing
  /// Tasks of the same list that have not ended; null for tasks without a list.
  std::size_t* list = nullptr;
};

/// Tasks that wait, by target, and those that run. A target without waiting tasks takes one that
/// waits for another target, if a new decision sends it there. Thread-safe; its threads share it.
class BegunTasks {
 public:
  ///   serve_cpu  lets another thread call serve_cpu() soon
  BegunTasks(Scheduler& scheduler, std::function<void()> serve_cpu)
      : scheduler_(scheduler), serve_cpu_(std::move(serve_cpu)) {}

  void add(BegunTask task) {
    const std::lock_guard lock(mutex_);
    ++running_;
    if (task.list != nullptr) ++*task.list;
    put(std::move(task));
  }

  /// Runs the tasks of a device until stop().
  void serve(std::size_t target) {
    for (;;) {
      std::optional<BegunTask> task;
      {
        std::unique_lock lock(mutex_);
        while (!stopped_ && !(task = next(target, nullptr))) changed_.wait(lock);
      }
      if (!task) return;
      run(*task, target);
    }
  }

  /// Runs tasks without a list for the CPU while there are any.
  void serve_cpu() {
    for (;;) {
      std::optional<BegunTask> task;
      {
        const std::lock_guard lock(mutex_);
        task = next(kCpu, nullptr);
      }
      if (!task) return;
      run(*task, kCpu);
    }
  }

  /// Runs the tasks of a list for the CPU, and waits for its other tasks.
  void serve_list(std::size_t& left) {
    for (;;) {
      std::optional<BegunTask> task;
      {
        std::unique_lock lock(mutex_);
        while (left > 0 && !(task = next(kCpu, &left))) changed_.wait(lock);
      }
      if (!task) return;
      run(*task, kCpu);
    }
  }

  /// Runs all waiting tasks and waits for the rest, except for the caller's own if it has called
  /// exit(). Threads may have stopped for good by then.
  void finish() {
    while (auto task = any()) run(*task, task->decision.target);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ <= (here_ == this ? 1u : 0u); });
  }

  /// Ends serve(). Returns true if the thread of a device waits for ever for the process to end.
  bool stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    return blocked_;
  }

 private:
  /// Tasks of one target.
  struct Line {
    std::deque<BegunTask> waiting;
    std::size_t running = 0;
  };

  Line& line(std::size_t target) {
    if (lines_.size() <= target) lines_.resize(target + 1);
    return lines_[target];
  }

  void put(BegunTask task) {
    const bool for_pool = task.decision.target == kCpu && task.list == nullptr;
    line(task.decision.target).waiting.push_back(std::move(task));
    for_pool ? serve_cpu_() : changed_.notify_all();
  }

  /// The CPU runs tasks of a list only on the thread that waits for the list.
  static bool may_take(const BegunTask& task, std::size_t target, const std::size_t* list) {
    return target != kCpu || task.list == list;
  }

  /// Takes the oldest task that waits for the target, or else the last one of another target.
  std::optional<BegunTask> next(std::size_t target, const std::size_t* list) {
    std::deque<BegunTask>& own = line(target).waiting;
    std::optional<BegunTask> found;
    const auto oldest = std::ranges::find_if(
        own, [&](const BegunTask& task) { return may_take(task, target, list); });
    if (oldest != own.end()) {
      found = std::move(*oldest);
      own.erase(oldest);
      if (!scheduler_.accepts(found->shape, target))
        found->decision = scheduler_.decide_again(found->shape, found->decision);
    }
    for (std::size_t k = 0; k < lines_.size() && !found; ++k)
      if (k != target) found = take_from(k, target, list);
    if (found) ++line(target).running;
    return found;
  }

  /// Takes the last task that waits for another target, if it is better off here.
  std::optional<BegunTask> take_from(std::size_t other, std::size_t target,
                                     const std::size_t* list) {
    Line& from = lines_[other];
    // An idle target is about to take its first task.
    if (from.waiting.size() + from.running < 2 || from.waiting.empty()) return std::nullopt;
    BegunTask& last = from.waiting.back();
    if (!may_take(last, target, list)) return std::nullopt;
    last.decision = scheduler_.decide_again(last.shape, last.decision);
    if (last.decision.target == other) return std::nullopt;
    BegunTask found = std::move(last);
    from.waiting.pop_back();
    if (found.decision.target == target) return found;
    put(std::move(found));
    return std::nullopt;
  }

  std::optional<BegunTask> any() {
    const std::lock_guard lock(mutex_);
    for (Line& line : lines_) {
      if (line.waiting.empty()) continue;
      BegunTask found = std::move(line.waiting.front());
      line.waiting.pop_front();
      ++line.running;
      return found;
    }
    return std::nullopt;
  }

  ///   target  whose thread this is
  void run(const BegunTask& task, std::size_t target) {
    // At the end of the process the call may block here for ever.
    const WhenStopped stopped([&] {
      const std::lock_guard lock(mutex_);
      blocked_ = true;
      --running_;
      changed_.notify_all();
    });
    const BegunTasks* const outer = std::exchange(here_, this);
    task.run(task.decision);
    here_ = outer;
    const std::lock_guard lock(mutex_);
    --running_;
    --lines_[target].running;
    if (task.list != nullptr) --*task.list;
    changed_.notify_all();
  }

  inline static thread_local const BegunTasks* here_ = nullptr;

  Scheduler& scheduler_;
  const std::function<void()> serve_cpu_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Line> lines_;  // by target
  std::size_t running_ = 0;  // includes those that wait
  bool stopped_ = false, blocked_ = false;
};

/// The pool has at least two threads, to wait for a device and the CPU at the same time.
class TaskArena {
 public:
  explicit TaskArena(Scheduler& scheduler)
      : scheduler_(scheduler), shared_(new Shared{.begun = make_begun()}) {}
  ~TaskArena() {
    // A child of fork() has no threads, and must not destroy what they wait for.
    if (!finish()) return;
    const bool blocked = shared_->begun->stop();
    for (std::thread& thread : shared_->threads) {
      if (blocked || thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
    delete shared_;
  }
  TaskArena(const TaskArena&) = delete;
  TaskArena& operator=(const TaskArena&) = delete;

  /// False in a child of fork(): the pool, the threads and their tasks are the parent's.
  bool usable() const { return arena_.usable(); }

  /// Waits for tasks that have begun (BegunTasks::finish()). Returns usable().
  bool finish() {
    if (!usable()) return false;
    shared_->begun->finish();
    return true;
  }

  /// Begins a task at the target of its decision. Runs it at once in a child of fork(), or if the
  /// device can have no thread.
  void begin(BegunTask task) {
    if (!usable() || (task.decision.target != kCpu && !serve_devices()))
      return task.run(task.decision);
    shared_->begun->add(std::move(task));
  }

  /// Runs the tasks of a list for the CPU on this thread until all of the list have ended.
  void finish_list(std::size_t& left) { shared_->begun->serve_list(left); }

  /// Runs both concurrently if a thread is free, else `here` first. Throws the error of either.
  template <class There, class Here>
  void both(const There& there, const Here& here) {
    if (ir::pool_is_lost()) {
      here();
      there();
      return;
    }
    arena_.execute([&] {
      tbb::task_group group;
      group.run(there);
      try {
        here();
      } catch (...) {
        group.wait();
        throw;
      }
      group.wait();
    });
  }

 private:
  /// Outlives the arena in a child of fork().
  struct Shared {
    std::shared_ptr<BegunTasks> begun;
    std::mutex mutex = {};
    std::vector<std::thread> threads = {};  // of target 1, 2, ...
  };

  std::shared_ptr<BegunTasks> make_begun() {
    return std::make_shared<BegunTasks>(
        scheduler_, [this] { arena_.enqueue([begun = shared_->begun] { begun->serve_cpu(); }); });
  }

  /// Starts a thread for each device that has none. Returns false if there can be none.
  bool serve_devices() {
    const std::lock_guard lock(shared_->mutex);
    try {
      for (std::size_t k = shared_->threads.size() + 1; k < scheduler_.target_count(); ++k)
        shared_->threads.emplace_back([begun = shared_->begun, k] { begun->serve(k); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  ir::Arena arena_{std::max(2, ir::pool_threads()), 1};
  Scheduler& scheduler_;
  Shared* const shared_;
};

namespace {

// A smaller share is not worth a second side.
constexpr double kLeastShare = 0.05;

/// True if they can run as one.
bool fit(const DeviceProgram& a, const DeviceProgram& b) {
  return a.glsl == b.glsl && a.constants == b.constants && a.arrays.size() == b.arrays.size();
}

/// Joins programs that fit.
DeviceProgram joined(std::vector<DeviceProgram> programs) {
  DeviceProgram& all = programs.front();
  for (DeviceProgram& more : std::span(programs).subspan(1)) {
    for (std::size_t k = 0; k < all.arrays.size(); ++k) {
      DeviceArray& array = all.arrays[k];
      // An array kept under one key is now a part of another array.
      array.key = 0;
      for (const auto& piece : more.arrays[k].read) array.read.push_back(piece);
      for (const auto& piece : more.arrays[k].written) array.written.push_back(piece);
    }
    all.items += more.items;
  }
  return std::move(all);
}

/// The program of each task, or nothing if they cannot run as one.
std::vector<DeviceProgram> programs_of(std::span<Task* const> tasks) {
  std::vector<DeviceProgram> programs;
  for (Task* task : tasks) {
    std::optional<DeviceProgram> one = task->program({0, task->shape().size});
    if (!one || !one->itemwise || (!programs.empty() && !fit(programs.front(), *one))) return {};
    programs.push_back(std::move(*one));
  }
  return programs;
}

TaskShape sum_of(std::span<Task* const> tasks) {
  TaskShape sum = tasks[0]->shape();
  sum.resident = {};
  for (const Task* task : tasks.subspan(1)) {
    const TaskShape shape = task->shape();
    sum.size += shape.size;
    sum.bytes_in += shape.bytes_in;
    sum.bytes_out += shape.bytes_out;
    sum.bytes_held += shape.bytes_held;
    sum.targets &= shape.targets;
  }
  return sum;
}

/// Throws Error{InvalidArgument} if a task of the list is null.
void require_tasks(const char* call, std::span<Task* const> tasks) {
  const auto none = std::ranges::find(tasks, nullptr);
  if (none == tasks.end()) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": task " +
                                              std::to_string(none - tasks.begin()) +
                                              " of the list is null");
}

}  // namespace

TaskRunner::TaskRunner(const Executor& executor, const HybridOptions& options, Scheduler& scheduler,
                       DeviceList& devices, TaskRecord& record)
    : executor_(executor),
      options_(options),
      scheduler_(scheduler),
      devices_(devices),
      record_(record),
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
  record_.decided(shape.operation, decision);
  ExecutionStats stats = wants_split(task, shape, decision)
                             ? run_split(task, shape, decision)
                             : run(task, shape, decision, {0, shape.size});
  record_.observe(shape.operation, shape.size, stats);
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
    const RunsTask inside(executor_);
    if (const std::uint64_t own = task.threads()) {
      task.run_on_cpu(CpuThreads(own), items);
    } else {
      task.run_on_cpu(threads_, items);
    }
  } catch (...) {
    if (decision) scheduler_.cancel(*decision);
    record_.ran(shape.operation, kCpu, {.success = false}, items.count(), scheduler_.now());
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
  record_.ran(shape.operation, kCpu, outcome, items.count(), end);
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
    const RunsTask inside(executor_);
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
  record_.ran(shape.operation, decision.target, outcome, shape.size, scheduler_.now());
  stats = {.device = device.name(),
           .decision = decision,
           .times = report.times,
           .bytes_up = report.bytes_up,
           .bytes_down = report.bytes_down,
           .cache_hits = report.cache_hits};
  return failure;
}

void TaskRunner::fell_back(const TaskShape& shape, const Decision& decision, const Error& error) {
  record_.fell_back(shape.operation, devices_.name_of(decision.target), error);
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
    if (RunsTask::here(executor_)) {
      run(decision);
    } else {
      arena_->begin({shape, decision, run});
    }
  } catch (...) {
    promise->set_exception(std::current_exception());
  }
  return future;
}

/// Groups tasks by kernel, in the order of each kernel's first task. Overridden tasks stay alone.
std::vector<TaskRunner::Group> TaskRunner::groups(std::span<Task* const> tasks) const {
  std::vector<Group> groups;
  std::map<std::pair<Hash128, Override>, std::size_t> known;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const TaskShape shape = tasks[k]->shape();
    const auto [entry, is_new] = known.try_emplace({shape.kernel, shape.where}, groups.size());
    if (is_new || !options_.coalesce || shape.where == Override::cpu || shape.deadline_us > 0) {
      entry->second = groups.size();
      groups.emplace_back();
    }
    groups[entry->second].tasks.push_back(tasks[k]);
    groups[entry->second].positions.push_back(k);
  }
  return groups;
}

struct TaskRunner::List {
  std::vector<ExecutionStats> stats;
  bool alone = false;  // each task runs on this thread before the next one is decided
  std::vector<BegunTask> begun = {};
  std::size_t left = 0;           // tasks that wait or run
  std::mutex mutex = {};          // guards `first`
  std::exception_ptr first = {};  // error

  void run(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  }
};

/// Tasks run at the same time on different targets unless there is nothing to distribute.
std::vector<ExecutionStats> TaskRunner::execute(std::span<Task* const> tasks) {
  require_tasks("execute", tasks);
  List list{.stats = std::vector<ExecutionStats>(tasks.size())};
  list.alone = tasks.size() < 2 || !arena_->usable() || foreign_calls_ended() ||
               RunsTask::here(executor_) || !scheduler_.has_devices();
  for (const Group& group : groups(tasks)) list.run([&] { begin_group(group, list); });
  if (list.begun.size() == 1) {
    list.begun.front().run(list.begun.front().decision);
  } else {
    for (BegunTask& one : list.begun) list.run([&] { arena_->begin(std::move(one)); });
    arena_->finish_list(list.left);
  }
  if (list.first) std::rethrow_exception(list.first);
  return std::move(list.stats);
}

void TaskRunner::begin(List& list, TaskShape shape, const Decision& decision,
                       std::function<void(const Decision&)> run) {
  const auto guarded = [&list, run = std::move(run)](const Decision& last) {
    list.run([&] { run(last); });
  };
  if (list.alone) return guarded(decision);
  list.begun.push_back({shape, decision, guarded, &list.left});
}

void TaskRunner::begin_group(const Group& group, List& list) {
  std::vector<DeviceProgram> programs;
  if (group.tasks.size() > 1) programs = programs_of(group.tasks);
  if (programs.empty()) {
    for (std::size_t k = 0; k < group.tasks.size(); ++k) {
      Task& task = *group.tasks[k];
      ExecutionStats& stats = list.stats[group.positions[k]];
      const TaskShape shape = task.shape();
      begin(list, shape, scheduler_.decide(shape),
            [this, &task, &stats, shape](const Decision& decision) {
              stats = follow(task, shape, decision);
            });
    }
    return;
  }
  const TaskShape whole = sum_of(group.tasks);
  const Decision decision = scheduler_.decide(whole);
  if (decision.target == kCpu || list.alone)
    return begin_joined(list, group, std::move(programs), decision);
  scheduler_.cancel(decision);
  double left = 0;  // items that have no target yet
  for (const DeviceProgram& program : programs) left += static_cast<double>(program.items);
  const double all = left;
  std::size_t next = 0;
  double until = 1;  // share of the items that is left for the other targets
  const std::vector<Scheduler::Share> shares = scheduler_.divide(whole);
  for (const Scheduler::Share& share : shares) {
    until = &share == &shares.back() ? 0 : until - share.share;
    Group part;
    std::vector<DeviceProgram> own;
    for (; next < programs.size(); ++next) {
      const auto items = static_cast<double>(programs[next].items);
      if (left - items / 2 < until * all) break;
      left -= items;
      part.tasks.push_back(group.tasks[next]);
      part.positions.push_back(group.positions[next]);
      own.push_back(std::move(programs[next]));
    }
    if (own.empty()) continue;
    Decision there =
        scheduler_.follow(sum_of(part.tasks), {.target = share.target, .reason = decision.reason});
    there.speed_up = decision.speed_up;
    there.needed = decision.needed;
    there.confidence = decision.confidence;
    begin_joined(list, std::move(part), std::move(own), there);
  }
}

void TaskRunner::begin_joined(List& list, Group group, std::vector<DeviceProgram> programs,
                              const Decision& decision) {
  const TaskShape shape = sum_of(group.tasks);
  const auto own = std::make_shared<std::vector<DeviceProgram>>(std::move(programs));
  begin(list, shape, decision,
        [this, group = std::move(group), own, shape, &list](const Decision& last) {
          run_group(group, shape, std::move(*own), last, list.stats);
        });
}

void TaskRunner::run_group(const Group& group, const TaskShape& shape,
                           std::vector<DeviceProgram> programs, const Decision& decision,
                           std::span<ExecutionStats> out) {
  if (decision.target == kCpu) {
    scheduler_.cancel(decision);
    for (std::size_t k = 0; k < group.tasks.size(); ++k) {
      const TaskShape one = group.tasks[k]->shape();
      Decision own = decision;
      own.reserved_us = 0;
      record_.decided(one.operation, own);
      out[group.positions[k]] = run(*group.tasks[k], one, own, {0, one.size});
      record_.observe(one.operation, one.size, out[group.positions[k]]);
    }
    return;
  }
  record_.decided(shape.operation, decision);
  const DeviceProgram program = joined(std::move(programs));
  ExecutionStats stats;
  const std::optional<Error> error = try_device(
      shape, decision, [&](DeviceBackend& device) { return device.run(program); }, stats);
  if (error && forced_side(shape, options_) == Side::device) throw *error;
  if (error) fell_back(shape, decision, *error);
  if (!error && group.tasks.size() > 1) record_.coalesced(group.tasks.size());
  stats.coalesced = group.tasks.size();
  for (std::size_t k = 0; k < group.tasks.size(); ++k) {
    ExecutionStats& one = out[group.positions[k]];
    const TaskShape own = group.tasks[k]->shape();
    one = error ? run_on_cpu(*group.tasks[k], own, {0, own.size}, nullptr) : stats;
    if (error) one.fallback = error->what();
    one.decision = decision;
    record_.observe(own.operation, own.size, one);
  }
}

bool TaskRunner::wants_split(Task& task, const TaskShape& shape, const Decision& decision) const {
  if (options_.split_size == 0 || shape.size < options_.split_size || !task.splittable())
    return false;
  if (decision.reason != Reason::faster && decision.reason != Reason::slower) return false;
  const double cpu = decision.on_cpu.terms.total(), device = decision.on_device.terms.total();
  return std::min(cpu, device) >= kLeastShare * (cpu + device);
}

ExecutionStats TaskRunner::run_split(Task& task, const TaskShape& shape, const Decision& decision) {
  scheduler_.cancel(decision);
  const double cpu = decision.on_cpu.terms.total(), device = decision.on_device.terms.total();
  const double share = device / (cpu + device);
  const auto cut = static_cast<std::uint64_t>(share * static_cast<double>(shape.size));
  const Items here{0, cut}, there{cut, shape.size};
  Decision apart = decision;
  apart.target = decision.device;
  apart.reserved_us = 0;

  ExecutionStats stats;
  std::optional<Error> error;
  const auto on_device = [&] {
    error = try_device(
        shape.part(there.count()), apart,
        [&](DeviceBackend& backend) { return task.run_on_device(backend, there); }, stats);
  };
  arena_->both(on_device, [&] { run_on_cpu(task, shape.part(here.count()), here, nullptr); });
  if (error) {
    fell_back(shape, apart, *error);
    stats = run_on_cpu(task, shape.part(there.count()), there, nullptr);
    stats.fallback = error->what();
  } else {
    stats.cpu_share = share;
  }
  record_.split();
  stats.decision = decision;
  return stats;
}

void TaskRunner::warm_up_on(Task& task, std::size_t target, int samples) {
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
      record_.log(LogLevel::warning, "warm_up: " + devices_.name_of(target) + ": " + error->what());
      return;
    }
  }
}

void TaskRunner::warm_up(std::span<Task* const> tasks, int samples) {
  require_tasks("warm_up", tasks);
  for (Task* task : tasks) {
    const std::uint64_t targets = task->shape().targets;
    const std::size_t last = devices_.all().size();
    for (std::size_t target = 0; target <= last; ++target) {
      if ((targets >> target & 1) != 0 && scheduler_.admits(target))
        warm_up_on(*task, target, samples);
    }
  }
}

}  // namespace topograd::runtime::hybrid
