// Internal: tasks that have begun and wait for their target: a thread for each device, and the
// process's one pool of threads for the CPU.
#pragma once

#include "../../ir/machine/foreign_call.hpp"
#include "../../ir/machine/parallel.hpp"
#include "routing/scheduler.hpp"

#include <tbb/task_group.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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

}  // namespace topograd::runtime::hybrid
