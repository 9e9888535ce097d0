// Random numbers that depend only on a seed and a position: the same on every device.
#pragma once

#include "map.hpp"

#include <cstdint>
#include <type_traits>

namespace topograd::ops {

/// Words of a counter-based generator, uniform over 32 bits: element i of the array is word i % 4
/// of block first / 4 + i / 4.
///
///   seed    key of the generator
///   stream  upper half of the counter: streams of one seed are independent
///   first   position in the stream, a multiple of 4; after n words, the next array can begin at
///           first + n rounded up to a multiple of 4
/// The same bits on every device. Throws Error{InvalidArgument} for `first`.
/// Source: Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC11), Philox
/// 4x32-10.
ExecutionStats random_words_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                 const OpOptions& options, std::uint32_t stream = 0);
Array<std::uint32_t> random_words(std::uint64_t count, std::uint64_t seed, std::uint64_t first = 0,
                                  const OpOptions& options = {}, std::uint32_t stream = 0);

/// The numbers of random_uniform<float> and random_normal<float>, each in a single kernel.
ExecutionStats random_uniform_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                   const OpOptions& options);
ExecutionStats random_normal_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                  const OpOptions& options);

/// Streams of the words from which random_normal() makes numbers.
inline constexpr std::uint32_t kRadii = 0, kAngles = 1;

/// A normal number from two words. Source: Box & Muller, A note on the generation of random normal
/// deviates, 1958.
Value box_muller(Value radius, Value angle);

/// Uniform in [0, 1): multiples of 2⁻²⁴ (float) or 2⁻³² (double). The same bits on every device.
template <class T>
requires std::is_floating_point_v<T> Array<T> random_uniform(std::uint64_t count,
                                                             std::uint64_t seed,
                                                             std::uint64_t first = 0,
                                                             const OpOptions& options = {}) {
  if constexpr (std::is_same_v<T, float>) {
    Array<float> out(count);
    random_uniform_into(out.untyped(), seed, first, options);
    return out;
  } else {
    return map_to<double>(
        options, [](Value w) { return w * literal(0x1p-32); },
        random_words(count, seed, first, options));
  }
}

/// Normal with mean 0 and deviation 1, by Box and Muller from two streams; |x| < 6.7. The same on
/// every device up to rounding: float is within 10⁻⁶ |x| of the exact number on devices, and
/// rounded from double on the CPU.
template <class T>
requires std::is_floating_point_v<T> Array<T> random_normal(std::uint64_t count, std::uint64_t seed,
                                                            std::uint64_t first = 0,
                                                            const OpOptions& options = {}) {
  if constexpr (std::is_same_v<T, float>) {
    Array<float> out(count);
    random_normal_into(out.untyped(), seed, first, options);
    return out;
  } else {
    const Array<std::uint32_t> radius = random_words(count, seed, first, options, kRadii);
    const Array<std::uint32_t> angle = random_words(count, seed, first, options, kAngles);
    return map_to<T>(options, box_muller, radius, angle);
  }
}

}  // namespace topograd::ops
