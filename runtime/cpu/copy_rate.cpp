// Copies of large arrays, one part a thread.
#include "copy_rate.hpp"

#include "../../ir/machine/stopwatch.hpp"
#include "tiles/column.hpp"

#include <cstddef>
#include <cstring>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr int kWarmUps = 2, kSamples = 9;

}  // namespace

double copy_rate(Pool& pool) {
  Column<std::byte> from(kBytes), to(kBytes);
  // One piece per thread: the C library bypasses the caches only for large pieces.
  const std::size_t piece = (kBytes + static_cast<std::size_t>(pool.threads()) - 1) /
                            static_cast<std::size_t>(pool.threads());
  const auto for_pieces = [&](const auto& f) { pool.for_ranges(kBytes, piece, f); };
  for_pieces([&](std::size_t begin, std::size_t end) {
    std::memset(from.data() + begin, 1, end - begin);
  });
  const double us = median_time(kWarmUps, kSamples, [&] {
    for_pieces([&](std::size_t begin, std::size_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  });
  return 2 * static_cast<double>(kBytes) / (us * 1e-6);
}

double copy_rate(int threads) {
  Pool pool(threads);
  return copy_rate(pool);
}

}  // namespace topograd::runtime::cpu
