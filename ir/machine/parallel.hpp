// Parallel loops on the process's one pool of threads (TBB), or on own threads where it was lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace topograd::ir {

/// Threads of the pool: the hardware threads that this process may use, at least 1, as they were
/// when this was first called. Unlike TBB's own answer it starts nothing.
int pool_threads();

/// True in a child of fork() whose parent had used the pool: its threads were not copied, so
/// waiting for them would never end. Loops in such a child run on threads that it starts itself.
bool pool_is_lost();

/// Calls f(begin, end) for pieces of [0, count), in any order; those of the pool have at least
/// `grain` elements while there are so many.
void parallel_pieces(std::size_t count, std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& f);

/// Calls f(k) for first <= k < last, in any order.
template <class Index, class F>
void parallel_for(Index first, Index last, const F& f) {
  if (!(first < last)) return;
  parallel_pieces(static_cast<std::size_t>(last - first), 1,
                  [&](std::size_t begin, std::size_t end) {
                    const Index after = first + static_cast<Index>(end);
                    for (Index k = first + static_cast<Index>(begin); k < after; ++k) f(k);
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

/// Sorts on all threads.
void parallel_sort(std::span<std::uint32_t> keys);
void parallel_sort(std::span<std::uint64_t> keys);
/// Sorts positions of keys by their keys, and those of equal keys ascending.
void parallel_sort(std::span<std::uint32_t> positions, std::span<const std::uint32_t> keys);
void parallel_sort(std::span<std::uint32_t> positions, std::span<const std::uint64_t> keys);

/// Runs f; while loops in it wait for other threads, this thread takes no other work of the pool.
void isolated(const std::function<void()>& f);

/// A part of the pool. In a child of fork() an arena of the parent is unusable and never destroyed;
/// the child's threads replace it.
class Arena {
 public:
  ///   threads   0 = all
  ///   reserved  how many of them are for threads outside the pool
  explicit Arena(int threads = 0, unsigned reserved = 1);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// True if this process made it and its pool was not lost.
  bool usable() const;
  int threads() const;

  /// Runs f on this thread; loops inside use this part of the pool.
  void execute(const std::function<void()>& f);

  /// Runs f on a thread of the pool, now or later; in a child, at once on this thread.
  void enqueue(std::function<void()> f);

 private:
  class Threads;
  Threads* threads_;
  unsigned forks_;
};

}  // namespace topograd::ir
