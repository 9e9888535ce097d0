// Internal: work that an executor runs beside its callers, on the process's one pool of threads.
#pragma once

#include <topograd/runtime/hybrid/executor.hpp>

#include <tbb/info.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <condition_variable>

namespace topograd::runtime::hybrid {

/// Two threads at least, so that a device and the CPU can be waited for at the same time.
struct Executor::Arena {
  tbb::task_arena arena{std::max(2, tbb::info::default_concurrency()), 1};
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t running = 0;

  ~Arena() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return running == 0; });
  }

  void begin(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex);
      ++running;
    }
    arena.enqueue([this, work = std::move(work)] {
      work();
      const std::lock_guard lock(mutex);
      --running;
      changed.notify_all();
    });
  }

  /// Both at once where a thread is free, else `here` first. Throws what either throws.
  template <class There, class Here>
  void both(const There& there, const Here& here) {
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

}  // namespace topograd::runtime::hybrid
