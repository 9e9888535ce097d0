// Loops on TBB's threads, which are named here alone: each of its templates takes a second to
// compile. In a child of fork() own threads replace the lost pool.
#include "parallel.hpp"

#include "platform.hpp"

#include <sched.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

namespace topograd::ir {
namespace {

// Pieces of a loop per thread; several, because pieces differ in work.
constexpr std::size_t kPiecesOfThread = 8;

class Threads {
 public:
  explicit Threads(int count) {
    for (int k = 1; k < count; ++k) std::thread([this] { serve(); }).detach();
  }

  int count() const { return count_; }

  /// One loop at a time: false, and nothing was run, while there is another.
  bool run(std::size_t pieces, int most, const std::function<void(std::size_t)>& one) {
    if (busy_.exchange(true)) return false;
    Loop loop{.pieces = pieces, .most = most, .one = one};
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      ++loops_;
    }
    begun_.notify_all();
    work(loop);
    {
      std::unique_lock lock(mutex_);
      loop_ = nullptr;
      ended_.wait(lock, [&] { return loop.helpers == 0; });
    }
    busy_ = false;
    if (loop.error) std::rethrow_exception(loop.error);
    return true;
  }

 private:
  struct Loop {
    std::size_t pieces = 0;
    int most = 0;
    const std::function<void(std::size_t)>& one;
    std::atomic<std::size_t> next{0};
    int helpers = 0, joined = 0;  // guarded by the mutex, as what follows
    std::exception_ptr error;
  };

  void work(Loop& loop) {
    try {
      for (std::size_t k; (k = loop.next++) < loop.pieces;) loop.one(k);
    } catch (...) {
      loop.next = loop.pieces;
      const std::lock_guard lock(mutex_);
      if (!loop.error) loop.error = std::current_exception();
    }
  }

  void serve() {
    std::uint64_t last = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      begun_.wait(lock, [&] {
        return loop_ != nullptr && loops_ != last && loop_->joined + 1 < loop_->most;
      });
      Loop& loop = *loop_;
      last = loops_;
      ++loop.helpers;
      ++loop.joined;
      lock.unlock();
      work(loop);
      lock.lock();
      if (--loop.helpers == 0) ended_.notify_all();
    }
  }

  const int count_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  Loop* loop_ = nullptr;     // guarded by the mutex
  std::uint64_t loops_ = 0;  // guarded by the mutex
};

constinit std::atomic<bool> used{false}, lost{false};
constinit std::atomic<unsigned> fork_count{0};
constinit std::atomic<Threads*> made{nullptr};
thread_local int most_threads = 0;

void become_child() {
  if (used) lost = true;
  ++fork_count;
  made = nullptr;  // its threads are the parent's; never destroyed
}

[[maybe_unused]] const bool kWatched = platform::after_fork(become_child);

/// Never destroyed: its threads wait until the process is gone.
Threads& threads() {
  static std::mutex& mutex = *new std::mutex;
  if (Threads* there = made) return *there;
  const std::lock_guard lock(mutex);
  if (made == nullptr) made = new Threads(static_cast<int>(std::thread::hardware_concurrency()));
  return *made;
}

unsigned forks() { return fork_count.load(std::memory_order_relaxed); }

void note_pool_use() {
  if (!used.load(std::memory_order_relaxed)) used = true;
}

/// Limits, while it lives, the threads that loops of this thread use in a child.
class ChildThreads {
 public:
  explicit ChildThreads(int most) : before_(std::exchange(most_threads, most)) {}
  ~ChildThreads() { most_threads = before_; }
  ChildThreads(const ChildThreads&) = delete;
  ChildThreads& operator=(const ChildThreads&) = delete;

 private:
  int before_;
};

/// Calls f(begin, end) for pieces of [0, count) on the threads of a child. A loop inside another
/// one runs on its own thread.
void for_pieces_in_child(std::size_t count,
                         const std::function<void(std::size_t, std::size_t)>& f) {
  if (count < 2 || most_threads == 1) return f(0, count);
  Threads& all = threads();
  const int most = most_threads > 0 ? std::min(most_threads, all.count()) : all.count();
  const std::size_t pieces =
      std::min(count, kPiecesOfThread * static_cast<std::size_t>(std::max(most, 1)));
  const auto one = [&](std::size_t k) { f(k * count / pieces, (k + 1) * count / pieces); };
  if (most < 2 || !all.run(pieces, most, one)) f(0, count);
}

template <class T, class Less>
void sort(std::span<T> items, const Less& less) {
  if (pool_is_lost()) return std::sort(items.begin(), items.end(), less);
  note_pool_use();
  tbb::parallel_sort(items.begin(), items.end(), less);
}

template <class Key>
void sort_by(std::span<std::uint32_t> positions, std::span<const Key> keys) {
  sort(positions, [keys](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
}

}  // namespace

bool pool_is_lost() { return lost.load(std::memory_order_relaxed); }

void parallel_pieces(std::size_t count, std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& f) {
  if (count == 0) return;
  if (pool_is_lost()) return for_pieces_in_child(count, f);
  note_pool_use();
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, grain),
                    [&](const auto& range) { f(range.begin(), range.end()); });
}

void parallel_sort(std::span<std::uint32_t> keys) { sort(keys, std::less<>()); }
void parallel_sort(std::span<std::uint64_t> keys) { sort(keys, std::less<>()); }

void parallel_sort(std::span<std::uint32_t> positions, std::span<const std::uint32_t> keys) {
  sort_by(positions, keys);
}
void parallel_sort(std::span<std::uint32_t> positions, std::span<const std::uint64_t> keys) {
  sort_by(positions, keys);
}

void isolated(const std::function<void()>& f) { tbb::this_task_arena::isolate(f); }

class Arena::Threads : public tbb::task_arena {
 public:
  using task_arena::task_arena;
};

Arena::Arena(int threads, unsigned reserved)
    : threads_(new Threads(threads > 0 ? threads : tbb::task_arena::automatic, reserved)),
      forks_(forks()) {}

Arena::~Arena() {
  if (usable()) delete threads_;
}

bool Arena::usable() const { return !pool_is_lost() && forks_ == forks(); }

int Arena::threads() const { return threads_->max_concurrency(); }

void Arena::execute(const std::function<void()>& f) {
  if (usable()) {
    note_pool_use();
    threads_->execute(f);
    return;
  }
  const ChildThreads most(threads());
  f();
}

void Arena::enqueue(std::function<void()> f) {
  if (!usable()) return f();
  note_pool_use();
  threads_->enqueue(std::move(f));
}

int pool_threads() {
  static const int kCount = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
      return CPU_COUNT(&set);
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return kCount;
}

}  // namespace topograd::ir
