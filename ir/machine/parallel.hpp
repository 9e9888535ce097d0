// Parallel loops on the process's one pool of threads (TBB), or on own threads where it was lost.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace topograd::ir {

/// Threads of the pool: the hardware threads that this process may use, at least 1, as they were
/// when this was first called. Unlike TBB's own answer it starts nothing.
int pool_threads();

/// True in a child of fork() whose parent had used the pool: its threads were not copied, so
/// waiting for them would never end. Loops in such a child run on threads that it starts itself.
bool pool_is_lost();

namespace detail {

/// Calls f(begin, end) for pieces of [0, count) on the threads of a child. A loop inside another
/// one runs on its own thread.
void for_pieces_in_child(std::size_t count, const std::function<void(std::size_t, std::size_t)>& f);

/// Limits, while it lives, the threads that loops of this thread use in a child.
class ChildThreads {
 public:
  explicit ChildThreads(int most);
  ~ChildThreads();
  ChildThreads(const ChildThreads&) = delete;
  ChildThreads& operator=(const ChildThreads&) = delete;

 private:
  int before_;
};

/// Number of forks that led to this process, counted in the child.
unsigned forks();
void note_pool_use();

}  // namespace detail

/// Calls f(k) for first <= k < last, in any order.
template <class Index, class F>
void parallel_for(Index first, Index last, const F& f) {
  if (!(first < last)) return;
  if (!pool_is_lost()) {
    detail::note_pool_use();
    tbb::parallel_for(first, last, f);
    return;
  }
  const auto count = static_cast<std::size_t>(last - first);
  detail::for_pieces_in_child(count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) f(static_cast<Index>(first + static_cast<Index>(k)));
  });
}

/// Calls f(part) for parts of the range, in any order.
template <class F>
void parallel_for(const tbb::blocked_range<std::size_t>& range, const F& f) {
  if (!pool_is_lost()) {
    detail::note_pool_use();
    tbb::parallel_for(range, f);
    return;
  }
  if (range.empty()) return;
  detail::for_pieces_in_child(range.size(), [&](std::size_t begin, std::size_t end) {
    tbb::blocked_range<std::size_t> part(range.begin() + begin, range.begin() + end,
                                         range.grainsize());
    f(part);
  });
}

/// Calls of a few instructions that are not worth a thread, nor the pool's start.
inline constexpr std::size_t kLightCalls = 256;

/// Calls f(k) for first <= k < last, in any order: up to `most` of them on the calling thread, more
/// by parallel_for.
template <class Index, class F>
void parallel_for_beyond(std::size_t most, Index first, Index last, const F& f) {
  if (!(first < last)) return;
  if (static_cast<std::size_t>(last - first) > most) return parallel_for(first, last, f);
  for (Index k = first; k < last; ++k) f(k);
}

template <class Iterator, class Less = std::less<>>
void parallel_sort(Iterator first, Iterator last, const Less& less = {}) {
  if (pool_is_lost()) return std::sort(first, last, less);
  detail::note_pool_use();
  tbb::parallel_sort(first, last, less);
}

/// A part of the pool. In a child of fork() an arena of the parent is unusable and never destroyed;
/// the child's threads replace it.
class Arena {
 public:
  ///   threads   0 = all
  ///   reserved  how many of them are for threads outside the pool
  explicit Arena(int threads = 0, unsigned reserved = 1)
      : arena_(new tbb::task_arena(threads > 0 ? threads : tbb::task_arena::automatic, reserved)),
        forks_(detail::forks()) {}
  ~Arena() {
    if (usable()) delete arena_;
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// True if this process made it and its pool was not lost.
  bool usable() const { return !pool_is_lost() && forks_ == detail::forks(); }
  int threads() const { return arena_->max_concurrency(); }

  /// Runs f on this thread; loops inside use this part of the pool.
  template <class F>
  void execute(const F& f) {
    if (usable()) {
      detail::note_pool_use();
      arena_->execute(f);
      return;
    }
    const detail::ChildThreads most(threads());
    f();
  }

  /// Runs f on a thread of the pool, now or later; in a child, at once on this thread.
  template <class F>
  void enqueue(F&& f) {
    if (!usable()) return std::forward<F>(f)();
    detail::note_pool_use();
    arena_->enqueue(std::forward<F>(f));
  }

 private:
  tbb::task_arena* arena_;
  unsigned forks_;
};

}  // namespace topograd::ir
