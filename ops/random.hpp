// Random numbers that depend on a seed and a place alone: the same on every device.
#pragma once

#include <topograd/ops/map.hpp>

#include <cstdint>

namespace topograd::ops {

/// Words of a counter-based generator, uniform over 32 bits: element i of the array is word i % 4
/// of block first / 4 + i / 4.
///
///   seed   key of the generator: other seeds are other streams
///   first  place in the stream, a multiple of 4: an array of n words may be followed by one that
///          begins n (rounded up to 4) later
///
/// The same bits on every device. Throws Error{InvalidArgument} for `first`.
/// Source: Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC11), Philox
/// 4x32-10.
ExecutionStats random_words_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                 const OpOptions& options);
Array<std::uint32_t> random_words(std::uint64_t count, std::uint64_t seed, std::uint64_t first = 0,
                                  const OpOptions& options = {});

/// Uniform in [0, 1): multiples of 2⁻²⁴ (float), of 2⁻³² (double).
template <class T>
requires std::is_floating_point_v<T> Array<T> random_uniform(std::uint64_t count,
                                                             std::uint64_t seed,
                                                             std::uint64_t first = 0,
                                                             const OpOptions& options = {}) {
  const Array<std::uint32_t> words = random_words(count, seed, first, options);
  // 24 bits are exact in both precisions; the map itself is computed in f64.
  if constexpr (std::is_same_v<T, float>) {
    return map_to<float>(
        options, [](Value w) { return floor(w * literal(0x1p-8)) * literal(0x1p-24); }, words);
  } else {
    return map_to<double>(
        options, [](Value w) { return w * literal(0x1p-32); }, words);
  }
}

/// Normal with mean 0 and deviation 1, by Box and Muller from two streams; |x| < 6.7. The same on
/// every device up to the rounding of the logarithm and the cosine.
template <class T>
requires std::is_floating_point_v<T> Array<T> random_normal(std::uint64_t count, std::uint64_t seed,
                                                            std::uint64_t first = 0,
                                                            const OpOptions& options = {}) {
  const Array<std::uint32_t> radius = random_words(count, seed, first, options);
  const Array<std::uint32_t> angle =
      random_words(count, seed ^ 0x9e3779b97f4a7c15ull, first, options);
  return map_to<T>(
      options,
      [](Value r, Value a) {
        const Value u = (r + literal(1)) * literal(0x1p-32);
        return sqrt(log(u) * literal(-2)) * cos(a * literal(0x1.921fb54442d18p-30));
      },
      radius, angle);
}

}  // namespace topograd::ops
