// Number of kernels in compilation.
#pragma once

#include <cstddef>

namespace topograd::runtime::vulkan {

/// Number of kernels, on all devices, whose making was started on the pool (KernelCache::begin) and
/// has not ended; those that nobody waits for any more do not count. Thread-safe.
std::size_t unmade_kernels();

}  // namespace topograd::runtime::vulkan
