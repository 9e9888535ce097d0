// How many kernels are on their way.
#pragma once

#include <cstddef>

namespace topograd::runtime::vulkan {

/// Kernels whose making was begun on the pool (KernelCache::begin) and has not ended, of all
/// devices of the process; what nobody waits for any more does not count. Any thread.
std::size_t unmade_kernels();

}  // namespace topograd::runtime::vulkan
