// Internal: work that an executor runs beside its callers, on the process's one pool of threads.
#pragma once

#include "../../ir/machine/foreign_call.hpp"
#include "../../ir/machine/parallel.hpp"
#include "executor.hpp"

#include <tbb/info.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace topograd::runtime::hybrid {

/// Work that was begun and has not ended, shared with the pool's threads.
class Begun {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    ++running_;
    waiting_.push_back(std::move(work));
  }

  /// Runs what has waited longest. False if nothing does.
  bool run_next() {
    std::function<void()> work;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return false;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    // At the end of the process it may stay where it is.
    const WhenStopped stopped([this] { ended(); });
    const Begun* const outer = std::exchange(here_, this);
    work();
    here_ = outer;
    ended();
    return true;
  }

  /// Runs what nobody has taken yet, and waits for the rest: all of it, or all but what has called
  /// this, having called exit(). The pool's threads may be stopped for good by then.
  void finish() {
    while (run_next()) {
    }
    const std::size_t own = here_ == this ? 1 : 0;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ <= own; });
  }

 private:
  void ended() {
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  inline static thread_local const Begun* here_ = nullptr;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t running_ = 0;  ///< those that wait among them
};

/// Two threads at least, so that a device and the CPU can be waited for at the same time.
struct Executor::Arena {
  ir::Arena arena{std::max(2, tbb::info::default_concurrency()), 1};
  std::shared_ptr<Begun> begun = std::make_shared<Begun>();

  ~Arena() {
    if (arena.usable()) begun->finish();  // else the parent's, and with it its tasks
  }

  void begin(std::function<void()> work) {
    begun->add(std::move(work));
    arena.enqueue([list = begun] { list->run_next(); });
  }

  /// Both at once where a thread is free, else `here` first. Throws what either throws.
  template <class There, class Here>
  void both(const There& there, const Here& here) {
    if (ir::pool_is_lost()) {
      here();
      there();
      return;
    }
    arena.execute([&] {
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
};

/// The task's own word, or the options'.
inline bool is_forced_to_device(const TaskShape& task, const HybridOptions& options) {
  return task.where == Override::device ||
         (task.where == Override::none && options.force == Force::device);
}

/// What is thrown where a task is forced to a device and there is none for it.
Error no_device_error(const TaskShape& task, Reason reason);
/// Throws Error{InvalidArgument} if one of a list of tasks is null.
void require_tasks(const char* call, std::span<Task* const> tasks);

}  // namespace topograd::runtime::hybrid
