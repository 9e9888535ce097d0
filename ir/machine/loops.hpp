// Loops that end early, or that are often too short for the pool of threads.
#pragma once

#include <cstddef>

#include "parallel.hpp"

namespace topograd::platform {

/// While one lives, long loops end early after request_end(), with the result that they have: an
/// inexact step, or a factor that is reported as failed. Whoever makes it looks for the request
/// afterwards. Thread-safe.
class EndableWork {
 public:
  EndableWork();
  ~EndableWork();
  EndableWork(const EndableWork&) = delete;
  EndableWork& operator=(const EndableWork&) = delete;

  /// True if a loop that runs now should end.
  static bool should_end();
};
/// Asks endable work to end, or takes that back. Signal handlers may call it.
void request_end(bool wanted);

/// Notes which program and libraries are loaded; only the first call does.
void remember_loaded_objects();
/// Ends the process with the remaining exit handlers and static destructors of what was noted by
/// remember_loaded_objects(), and without those of libraries that were loaded later; files are
/// flushed. Handlers of on_exit() are not called. An executable that is not position-independent
/// cannot tell its handlers from those of others, and ends without them.
[[noreturn]] void end_process_without_later_libraries(int status);

}  // namespace topograd::platform

namespace topograd::ir {

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

/// Threads of the pool: the hardware threads that this process may use, at least 1, as they were
/// when this was first called. Unlike TBB's own answer it starts nothing.
int pool_threads();

}  // namespace topograd::ir
