// Fixed-order summation, and the rate of copies of large arrays, one part a thread.
#include "pool.hpp"

#include "../../../ir/machine/stopwatch.hpp"
#include "column.hpp"

#include <cstring>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kCopiedBytes = std::size_t{64} << 20;
constexpr int kWarmUps = 2, kSamples = 9;

}  // namespace

double pairwise_sum(std::span<const double> values) {
  std::vector<double> sums(values.begin(), values.end());
  if (sums.empty()) return 0;
  for (std::size_t n = sums.size(); n > 1; n = (n + 1) / 2) {
    for (std::size_t k = 0; k < n / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
    if (n % 2 == 1) sums[n / 2] = sums[n - 1];
  }
  return sums[0];
}

double copy_rate(Pool& pool) {
  Column<std::byte> from(kCopiedBytes), to(kCopiedBytes);
  // One piece per thread: the C library bypasses the caches only for large pieces.
  const std::size_t piece = (kCopiedBytes + static_cast<std::size_t>(pool.threads()) - 1) /
                            static_cast<std::size_t>(pool.threads());
  const auto for_pieces = [&](const auto& f) { pool.for_ranges(kCopiedBytes, piece, f); };
  for_pieces([&](std::size_t begin, std::size_t end) {
    std::memset(from.data() + begin, 1, end - begin);
  });
  const double us = median_time(kWarmUps, kSamples, [&] {
    for_pieces([&](std::size_t begin, std::size_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  });
  return 2 * static_cast<double>(kCopiedBytes) / (us * 1e-6);
}

}  // namespace topograd::runtime::cpu
