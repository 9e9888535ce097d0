// How fast this machine copies memory: what times of the interpreter are measured against.
#pragma once

#include "tiles/pool.hpp"

namespace topograd::runtime::cpu {

/// Bytes a second, read and written, of a copy that fits no cache, by the pool's threads: the
/// median of a few. Cost: 128 MiB for about a tenth of a second. Throws std::bad_alloc.
double copy_rate(Pool& pool);

/// The same with `threads` of TBB's pool, 0 = all.
double copy_rate(int threads);

}  // namespace topograd::runtime::cpu
