// Internal: background work of tasks, on the process's one pool of threads.
#pragma once

#include "../../ir/machine/foreign_call.hpp"
#include "../../ir/machine/parallel.hpp"

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

/// Work that has begun and not ended, shared with the pool's threads.
class Begun {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    ++running_;
    waiting_.push_back(std::move(work));
  }

  /// Runs the oldest waiting work. Returns false if there is none.
  bool run_next() {
    std::function<void()> work;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return false;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    // At the end of the process the call may block here for ever.
    const WhenStopped stopped([this] { ended(); });
    const Begun* const outer = std::exchange(here_, this);
    work();
    here_ = outer;
    ended();
    return true;
  }

  /// Runs all waiting work and waits for the rest, except for the caller's own if it has called
  /// exit(). The pool's threads may have stopped for good by then.
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

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t running_ = 0;  ///< includes those that wait
};

/// At least two threads, to wait for a device and the CPU at the same time.
class TaskArena {
 public:
  ~TaskArena() { finish(); }

  /// False in a child of fork(): the pool and its tasks are the parent's.
  bool usable() const { return arena_.usable(); }

  /// Waits for work that has begun (Begun::finish()). Returns usable().
  bool finish() {
    if (!usable()) return false;
    begun_->finish();
    return true;
  }

  void begin(std::function<void()> work) {
    begun_->add(std::move(work));
    arena_.enqueue([list = begun_] { list->run_next(); });
  }

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
  ir::Arena arena_{std::max(2, tbb::info::default_concurrency()), 1};
  std::shared_ptr<Begun> begun_ = std::make_shared<Begun>();
};

}  // namespace topograd::runtime::hybrid
