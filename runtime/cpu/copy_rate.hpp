// The memory copy rate, to which times of the interpreter are compared.
#pragma once

#include "tiles/pool.hpp"

namespace topograd::runtime::cpu {

/// Bytes per second, read and written, of a copy larger than all caches by the pool's threads: the
/// median of a few. Cost: 128 MiB for about a tenth of a second. Throws std::bad_alloc.
double copy_rate(Pool& pool);

/// The same with `threads` of TBB's pool, 0 = all.
double copy_rate(int threads);

}  // namespace topograd::runtime::cpu
