// Internal: kernels of random numbers.
#pragma once

#include "../backend/compute_kernel.hpp"

#include <cstdint>

namespace topograd::ops {

enum class RandomKind : std::uint8_t { words, uniform, normal };

/// Each invocation makes four numbers from one block of the generator (normal ones: two blocks).
///
/// Argument y: uint or float; in quads, vectors of four. Words: count (of numbers, in quads of
/// vectors), counter_low, counter_high (of the first block), seed_low, seed_high, stream (of words
/// and uniform numbers; normal numbers also use the next one).
ComputeKernel random_kernel(RandomKind kind, bool quads, std::uint32_t local_size);

}  // namespace topograd::ops
