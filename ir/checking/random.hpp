// Seeded random numbers that are the same everywhere: standard distributions differ by library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace topograd::ir {

/// The 64-bit Mersenne twister.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, n); n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  /// Picks one element; `from` is not empty.
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace topograd::ir
