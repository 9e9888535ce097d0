// Loops that are often too short for the pool, and the number of its threads without starting it:
// what a first small solve runs.
#pragma once

#include "parallel.hpp"

#include <cstddef>

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
