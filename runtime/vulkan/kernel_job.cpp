// Jobs of the pool that make kernels.
#include <topograd/runtime/vulkan/kernel_job.hpp>

#include <tbb/task_arena.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr std::chrono::seconds kLongestWaitAtExit{60};

/// What runs on the pool. Compilers and drivers must not be at work while their static objects go
/// away: the process waits for jobs that have begun, and begins no more.
class Background {
 public:
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    idle_.wait_for(lock, kLongestWaitAtExit, [&] { return running_ == 0; });
  }

  void run(KernelJob& job) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      ++running_;
    }
    job.run();
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) idle_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int running_ = 0;
  bool closed_ = false;
};

struct CloseAtExit {
  Background& pool;
  ~CloseAtExit() { pool.close(); }
};

// Neither is destroyed: threads of the pool may look at them until the process is gone.
Background& background() {
  static Background& made = *new Background;
  // Made after the compilers' and drivers' statics, so that it goes before them.
  static const CloseAtExit close{made};
  return made;
}
tbb::task_arena& arena() {
  static tbb::task_arena& made = *new tbb::task_arena;
  return made;
}

}  // namespace

KernelJob::KernelJob(std::function<MadeKernel()> make)
    : make_(std::move(make)), future_(promise_.get_future()) {}

void KernelJob::run() {
  if (taken_.exchange(true)) return;
  try {
    promise_.set_value(make_());
  } catch (...) {
    promise_.set_exception(std::current_exception());
  }
  make_ = nullptr;  // lets go of the request
}

bool KernelJob::ready() const {
  return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

const MadeKernel& KernelJob::get() {
  run();
  return future_.get();
}

void run_in_background(const std::shared_ptr<KernelJob>& job) {
  Background& pool = background();
  arena().enqueue([&pool, weak = std::weak_ptr<KernelJob>(job)] {
    if (const auto held = weak.lock()) pool.run(*held);
  });
}

}  // namespace topograd::runtime::vulkan
