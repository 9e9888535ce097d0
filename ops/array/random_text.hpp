// Internal: kernels of random numbers.
#pragma once

#include "../backend/kernel_text.hpp"

#include <cstdint>

namespace topograd::ops {

enum class RandomKind : std::uint8_t { words, uniform, normal };

/// Four numbers an invocation: one block of the generator, two for normal ones.
///
/// Argument y: uint or float; in quads, vectors of four. Words: count (of numbers, in quads of
/// vectors), counter_low, counter_high (of the first block), seed_low, seed_high, stream (of
/// words and uniform numbers; normal ones take the next one, too).
KernelText random_kernel(RandomKind kind, bool quads, std::uint32_t local_size);

}  // namespace topograd::ops
